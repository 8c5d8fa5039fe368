"""Distributions of the policies of DQN, PQN, SAC and TD3: what a network's numbers say about actions, by role."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from palaestra.core.spaces import BoxSpec, DiscreteSpec, SpaceSpec
from palaestra.policies.distributions import Categorical, SquashedGaussian

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from palaestra.config.policy import Role
    from palaestra.policies.distributions import Distribution

LOG_STD_RANGE = (-20.0, 2.0)  # of the squashed Gaussian; as the authors of SAC have it


class ActionValues:
    """The expected return of every action; the greedy policy takes the largest, the first of equal ones."""

    def __init__(self, values: Tensor) -> None:
        self.values = values  # [T, B, count]

    def sample(self, generator: Generator | None = None) -> Tensor:  # noqa: ARG002  nothing is drawn
        return self.mode()

    def mode(self) -> Tensor:
        return self.values.argmax(dim=-1)

    def value(self) -> Tensor:
        """[T, B] of the greedy policy"""
        return self.values.amax(dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        return log_of(action == self.mode())

    def entropy(self) -> Tensor:
        return self.values.new_zeros(self.values.shape[:-1])


class DeterministicAction:
    """One action: `unit` [T, B, size] in [-1, 1], scaled to the bounds of the space."""

    def __init__(self, unit: Tensor, low: Tensor, high: Tensor) -> None:
        self.unit = unit
        self.half_width = (high - low) / 2  # [size]
        self.middle = (high + low) / 2  # [size]

    def sample(self, generator: Generator | None = None) -> Tensor:  # noqa: ARG002  nothing is drawn
        return self.mode()

    def mode(self) -> Tensor:
        return self.middle + self.half_width * self.unit

    def log_prob(self, action: Tensor) -> Tensor:
        return log_of((action == self.mode()).all(dim=-1))

    def entropy(self) -> Tensor:
        return self.unit.new_zeros(self.unit.shape[:-1])


def log_of(is_taken: Tensor) -> Tensor:
    """The logarithm of probabilities that are 0 or 1."""
    return torch.where(is_taken, 0.0, -torch.inf)


def role_distribution(role: Role, space: SpaceSpec, numbers: Tensor, bounds: tuple[Tensor, Tensor]) -> Distribution:
    """`numbers` [T, B, size], of the squashed Gaussian [T, B, 2 * size]: means, then logarithms of deviations.

    `bounds`: low and high of continuous actions, [size] each. `policies.roles` has refused spaces that do not fit.
    """
    match role, space:
        case "action_values", DiscreteSpec():
            return ActionValues(numbers)
        case "stochastic_actor", DiscreteSpec():
            return Categorical(numbers)
        case "stochastic_actor", BoxSpec():
            mean, log_std = numbers.chunk(2, dim=-1)
            return SquashedGaussian(mean, log_std.clamp(*LOG_STD_RANGE), *bounds)
        case "deterministic_actor", BoxSpec():
            return DeterministicAction(torch.tanh(numbers), *bounds)
        case _:
            raise AssertionError(f"{role} in {space}")
