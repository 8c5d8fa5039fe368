"""How weights begin: orthogonal, biases at zero."""

from __future__ import annotations

import math
from typing import TypeVar

from torch import nn

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
