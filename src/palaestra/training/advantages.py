"""Generalised advantage estimation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.training.rollout import Rollout


def estimate_advantages(rollout: Rollout, gamma: float, gae_lambda: float) -> Tensor:
    """GAE, shape [T, B]. Episode ends stop the sum; truncation still bootstraps (see Rollout.next_values)."""
    surprises = rollout.rewards + gamma * rollout.next_values - rollout.values
    carry = (~rollout.ended).to(surprises.dtype) * (gamma * gae_lambda)
    advantages = torch.empty_like(surprises)
    running = torch.zeros_like(surprises[0])
    steps = zip(surprises.unbind(), carry.unbind(), advantages.unbind(), strict=True)
    for surprise, weight, out in reversed(list(steps)):
        running = torch.addcmul(surprise, weight, running, out=out)
    return advantages
