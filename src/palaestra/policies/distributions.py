"""Distributions over actions, lean enough to be built at every step.

`torch.distributions` validates, broadcasts and keeps both logits and probabilities; at rollout batch sizes that
costs more than the network. These do the three things PPO asks for, on tensors that start with [T, B].
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Generator, Tensor

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, MultiDiscreteSpec, SpaceSpec
from palaestra.policies.squashed import SquashedGaussian, squash_bounds

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Distribution(Protocol):
    def sample(self, generator: Generator | None = None) -> Tensor: ...

    def mode(self) -> Tensor: ...

    def log_prob(self, action: Tensor) -> Tensor:
        """[T, B]"""
        ...

    def entropy(self) -> Tensor:
        """[T, B]"""
        ...


class Categorical:
    """One choice of `count`; actions are int64 [T, B]."""

    def __init__(self, logits: Tensor) -> None:
        self.log_probs = torch.log_softmax(logits, dim=-1)  # [T, B, count]

    def sample(self, generator: Generator | None = None) -> Tensor:
        # Whoever rings first: rates p_i give choice i with probability p_i. One random draw, no cumulative sums.
        waiting = torch.empty_like(self.log_probs).exponential_(generator=generator)
        return self.log_probs.exp().div_(waiting).argmax(dim=-1)

    def mode(self) -> Tensor:
        return self.log_probs.argmax(dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        return self.log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.log_probs.exp() * self.log_probs).sum(dim=-1)


class MultiCategorical:
    """Several independent choices; actions are int64 [T, B, choices]."""

    def __init__(self, logits: Tensor, counts: tuple[int, ...]) -> None:
        self.parts = [Categorical(part) for part in torch.split(logits, list(counts), dim=-1)]

    def sample(self, generator: Generator | None = None) -> Tensor:
        return torch.stack([part.sample(generator) for part in self.parts], dim=-1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        logs = [part.log_prob(action[..., index]) for index, part in enumerate(self.parts)]
        return torch.stack(logs, dim=-1).sum(dim=-1)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts], dim=-1).sum(dim=-1)


class DiagonalGaussian:
    """Independent normals; actions are float [T, B, size], clipped to their bounds by the environment's door."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean = mean  # [T, B, size]
        self.log_std = log_std  # [size], or [T, B, size] when the network gives it

    def sample(self, generator: Generator | None = None) -> Tensor:
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + noise * self.log_std.exp()

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        scaled = (action - self.mean) * (-self.log_std).exp()
        return (-0.5 * scaled.square() - self.log_std - HALF_LOG_TWO_PI).sum(dim=-1)

    def entropy(self) -> Tensor:
        per_action = (self.log_std + 0.5 + HALF_LOG_TWO_PI).sum(dim=-1)
        return per_action.expand(self.mean.shape[:-1])


def head_size(space: SpaceSpec) -> int:
    """How many numbers the network must give for an action space."""
    match space:
        case DiscreteSpec():
            return space.count
        case MultiDiscreteSpec():
            return sum(space.counts)
        case BoxSpec():
            return space.size
        case _:
            raise UsageError(
                f"A policy cannot act in a space of kind {type(space).__name__}.",
                "Known: discrete, multi-discrete, multi-binary and box.",
            )


def make_distribution(space: SpaceSpec, head: Tensor, log_std: Tensor | None, *, squash: bool = False) -> Distribution:
    """`head` [T, B, head_size(space)] as a distribution over actions of `space`.

    `log_std` [size] or [T, B, size] for continuous actions; `squash` lets those end at the space's bounds.
    """
    match space:
        case DiscreteSpec():
            return Categorical(head)
        case MultiDiscreteSpec():
            return MultiCategorical(head, space.counts)
        case _:
            assert isinstance(space, BoxSpec), "head_size has refused everything else"
            assert log_std is not None, "continuous actions need a log_std"
            if squash:
                return SquashedGaussian(head, log_std, *squash_bounds(space, head))
            return DiagonalGaussian(head, log_std)
