"""SAC's targets and losses, on tensors (Haarnoja et al., 2018; for discrete actions Christodoulou, 2019).

Log probabilities of continuous actions are densities in the environment's units (see `SquashedGaussian.sample_unit`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from palaestra.core.spaces import BoxSpec, DiscreteSpec, SpaceSpec

if TYPE_CHECKING:
    from torch import Tensor

DISCRETE_SHARE = 0.89  # of the largest entropy, for discrete actions


def soft_values(values: Tensor, log_probs: Tensor, temperature: float) -> Tensor:
    """[1, N] of actions that were drawn: their value plus the entropy that is left to gain."""
    return values - temperature * log_probs


def expected_soft_values(values: Tensor, log_probs: Tensor, temperature: float) -> Tensor:
    """[1, N] of states: the expectation over all actions, from values and log probabilities [1, N, count]."""
    return (log_probs.exp() * (values - temperature * log_probs)).sum(dim=-1)


def sampled_actor_gradients(value_gradient: Tensor, log_probs: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Derivatives of mean(temperature * log_prob - value) by the actions [1, N, size] and log probabilities [1, N].

    `value_gradient` [1, N, size]: of the smaller critic's value by the action.
    """
    count = log_probs.numel()
    return value_gradient * (-1 / count), log_probs.new_full(log_probs.shape, temperature / count)


def expected_actor_gradient(values: Tensor, log_probs: Tensor, temperature: float) -> Tensor:
    """Derivative of the mean over states of -expected_soft_values by the log probabilities [1, N, count]."""
    count = log_probs[..., 0].numel()
    return log_probs.exp() * (temperature * log_probs - values + temperature) / count


def temperature_gradient(entropy: float, target_entropy: float) -> float:
    """Derivative of log_alpha * (entropy - target) by log alpha: where there is too little entropy, alpha rises."""
    return entropy - target_entropy


def target_entropy_of(space: SpaceSpec, configured: float | None) -> float:
    """Of continuous actions minus one for each entry, of discrete actions a share of the largest entropy."""
    if configured is not None:
        return configured
    match space:
        case BoxSpec():
            return -float(space.size)
        case DiscreteSpec():
            return DISCRETE_SHARE * math.log(space.count)
        case _:
            raise AssertionError("policies.roles has refused other action spaces")
