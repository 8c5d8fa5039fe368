"""How weights begin: orthogonal, biases at zero."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN_GAIN = math.sqrt(2)
ACTOR_GAIN = 0.01  # small, so that the first policy is near uniform
CRITIC_GAIN = 1.0

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def orthogonal(layer: Layer, gain: float = HIDDEN_GAIN) -> Layer:
    """The same layer, with its weights drawn anew from torch's global generator."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None, "every layer here has a bias"
    nn.init.zeros_(layer.bias)
    return layer


THIN = 16  # inputs
MANY = 1024  # rows from which it is worth the two small steps more


def linear(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if weight.shape[1] >= THIN or rows.dim() != 2 or rows.shape[0] < MANY or not torch.is_grad_enabled():
        return functional.linear(rows, weight, bias)
    return torch.addmm(bias, rows, weight.t().contiguous())
