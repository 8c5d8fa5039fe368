"""Distributions over actions, lean enough to be built at every step.

`torch.distributions` validates, broadcasts and keeps both logits and probabilities; at rollout batch sizes that
costs more than the network. These do the three things PPO asks for, on tensors that start with [T, B].
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, MultiDiscreteSpec, SpaceSpec

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
    """Independent normals; actions are float [T, B, size], clipped to their bounds before `env.step`."""

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


LOG_TWO = math.log(2)
EDGE = 1 - 1e-6  # how near the bounds an action may come and still have a finite density in float32
POINTS = 24


class SquashedGaussian:
    """Independent normals u, squashed: low + (tanh(u) + 1) / 2 * (high - low); actions are float [T, B, size].

    The density follows from the change of variables. The entropy has no closed form; it is that of the normal plus the
    mean of log |d action / d u|, and that mean is taken by Gauss-Hermite quadrature: no noise, a gradient, and an error
    below 0.01 per action for standard deviations up to 2 (tests/policies/test_distributions.py integrates it).
    """

    def __init__(self, mean: Tensor, log_std: Tensor, low: Tensor, high: Tensor) -> None:
        self.mean = mean  # [T, B, size], of u
        self.log_std = log_std  # [size] or [T, B, size]
        self.half_width = (high - low) / 2  # [size]
        self.middle = (high + low) / 2  # [size]

    def sample(self, generator: Generator | None = None) -> Tensor:
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self._squash(self.mean + noise * self.log_std.exp())

    def mode(self) -> Tensor:
        """The squashed mean: the median of each action, which is what a greedy player does."""
        return self._squash(self.mean)

    def sample_unit(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions in [-1, 1] [T, B, size] with a gradient (reparameterised), and `log_prob` of them [T, B].

        `noise` [T, B, size] is standard normal. The density is that of the action in the environment's units, as
        `log_prob` has it; it is computed from u, so that it is exact where tanh(u) rounds to 1.
        """
        u = self.mean + noise * self.log_std.exp()
        normal = -0.5 * noise.square() - self.log_std - HALF_LOG_TWO_PI
        return torch.tanh(u), (normal - self._log_slope(u)).sum(dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        u = torch.atanh(((action - self.middle) / self.half_width).clamp(-EDGE, EDGE))
        scaled = (u - self.mean) * (-self.log_std).exp()
        normal = -0.5 * scaled.square() - self.log_std - HALF_LOG_TWO_PI
        return (normal - self._log_slope(u)).sum(dim=-1)

    def entropy(self) -> Tensor:
        points, weights = _quadrature(self.mean.dtype, self.mean.device)
        u = self.mean + points.view(-1, 1, 1, 1) * self.log_std.exp()  # [points, T, B, size]
        log_scale = (self._log_slope(u) * weights.view(-1, 1, 1, 1)).sum(dim=0)
        return (self.log_std + 0.5 + HALF_LOG_TWO_PI + log_scale).sum(dim=-1)

    def _squash(self, u: Tensor) -> Tensor:
        return self.middle + self.half_width * torch.tanh(u).clamp(-EDGE, EDGE)

    def _log_slope(self, u: Tensor) -> Tensor:
        """log |d action / d u|, written so that it does not lose its digits where tanh is flat"""
        return self.half_width.log() + 2 * (LOG_TWO - u - softplus(-2 * u))


def squash_bounds(space: BoxSpec, like: Tensor) -> tuple[Tensor, Tensor]:
    """[size] each, or [1] when all agree"""
    low, high = (torch.tensor(side, dtype=like.dtype, device=like.device) for side in (space.low, space.high))
    return low, high


def _quadrature(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Points and weights for the mean of a function of a standard normal."""
    points, weights = np.polynomial.hermite_e.hermegauss(POINTS)
    weights = weights / weights.sum()
    return torch.as_tensor(points, dtype=dtype, device=device), torch.as_tensor(weights, dtype=dtype, device=device)
