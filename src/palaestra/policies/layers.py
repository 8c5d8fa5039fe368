"""How weights begin: orthogonal with biases at zero, or as torch draws them by default."""

from __future__ import annotations

import math
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN_GAIN = math.sqrt(2)
ACTOR_GAIN = 0.01  # small, so that the first policy is near uniform
CRITIC_GAIN = 1.0

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


_is_drawn_by_torch = ContextVar("is_drawn_by_torch", default=False)


@contextmanager
def torch_initialization(*, enabled: bool = True) -> Iterator[None]:
    """Inside, `orthogonal` changes nothing: weights and biases are uniform within 1 / sqrt(inputs).

    Off-policy algorithms start from these, as in CleanRL and Stable-Baselines3.
    """
    token = _is_drawn_by_torch.set(enabled)
    try:
        yield
    finally:
        _is_drawn_by_torch.reset(token)


def orthogonal(layer: Layer, gain: float = HIDDEN_GAIN) -> Layer:
    """The same layer, with its weights drawn anew from torch's global generator."""
    if _is_drawn_by_torch.get():
        return layer
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
