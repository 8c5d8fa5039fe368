"""TD3's targets and exploration, on tensors (Fujimoto et al., 2018). Actions are in [-1, 1] throughout.

So noise is relative to half of an action's range, and the bounds are those of the action space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def noisy_actions(actions: Tensor, noise: Tensor, deviation: float, largest: float | None = None) -> Tensor:
    """`actions` with normal `noise` of this standard deviation, cut to ± `largest`, inside the bounds."""
    scaled = noise * deviation
    if largest is not None:
        scaled = scaled.clamp(-largest, largest)
    return (actions + scaled).clamp(-1, 1)


def actor_gradient(value_gradient: Tensor) -> Tensor:
    """Derivative of -mean(value) by the actions [1, N, size], from the derivative of each value by its action."""
    return value_gradient * (-1 / value_gradient[..., 0].numel())
