"""Generalised advantage estimation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.algorithms.rollout import Rollout


def estimate_advantages(rollout: Rollout, gamma: float, gae_lambda: float) -> Tensor:
    """GAE, shape [T, B]. Episode ends stop the sum; truncation still bootstraps (see Rollout.next_values)."""
    surprises = rollout.rewards + gamma * rollout.next_values - rollout.values
    carry = (~rollout.ended).to(surprises.dtype) * (gamma * gae_lambda)
    return _sum_backwards(surprises, carry)


def _sum_backwards(surprises: Tensor, carry: Tensor) -> Tensor:
    """out[t] = surprises[t] + carry[t] * out[t + 1], in NumPy: on rows this short its calls cost a fifth of torch's."""
    steps = surprises.cpu().numpy()
    weights = carry.cpu().numpy()
    out = np.empty_like(steps)
    running = np.zeros_like(steps[0])
    for step in range(len(steps) - 1, -1, -1):
        np.multiply(weights[step], running, out=running)
        running += steps[step]
        out[step] = running
    return torch.from_numpy(out).to(surprises.device)
