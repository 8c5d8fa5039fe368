"""The targets of PQN: λ-returns of the greedy policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.algorithms.advantages import sum_backwards

if TYPE_CHECKING:
    from torch import Tensor


def lambda_returns(rewards: Tensor, next_values: Tensor, ended: Tensor, gamma: float, q_lambda: float) -> Tensor:
    """Peng's Q(λ), shape [T, B]: R_t = r_t + gamma ((1 - λ) V_t+1 + λ R_t+1).

    Where an episode or the rollout ends, λ is 0.

    `next_values` [T, B] are the largest action values of the true successors, 0 after a terminal step; after a
    truncation that of the episode's own last observation. `ended` [T, B]: terminated or truncated.
    """
    weights = (~ended).to(rewards.dtype) * q_lambda
    weights[-1] = 0.0
    return sum_backwards(rewards + gamma * (1 - weights) * next_values, gamma * weights)
