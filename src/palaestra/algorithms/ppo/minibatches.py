"""Splits a rollout into minibatches: every sample exactly once per epoch, or drawn by priority.

A rollout [T, B] becomes segments [L, C]: L consecutive steps of one environment each. Policies with memory train on
whole segments, starting each from the memory that it had there; all others have L = 1, a single step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from palaestra.algorithms.advantages import vtrace
from palaestra.algorithms.group import ALONE, Group
from palaestra.algorithms.schedules import value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from palaestra.algorithms.rollout import Rollout
    from palaestra.config.ppo import PpoConfig
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Memory, Observation


class TeacherTargets(NamedTuple):
    """The teacher's actions and values for the same observations; see kickstart."""

    actions: Tensor  # [L, C, …], drawn from the teacher's distribution
    values: Tensor  # [L, C] in the student's scale of rewards


@dataclass(frozen=True)
class Segments:
    """C segments of L steps; every tensor starts with [L, C]. Returns are computed once per rollout."""

    observations: Observation
    actions: Tensor
    log_probs: Tensor  # under the policy that acted
    values: Tensor  # predicted while acting
    advantages: Tensor
    returns: Tensor
    starts: Tensor  # bool
    memory: Memory  # each [C, …], before the first step of the segment
    weights: Tensor | None = None  # [1, C] importance of each segment in the loss; None: all alike
    teacher_targets: TeacherTargets | None = None

    @property
    def count(self) -> int:
        return self.log_probs.shape[1]


Minibatch = Segments  # some of the segments


def split_rollout(
    rollout: Rollout, advantages: Tensor, length: int, teacher_targets: TeacherTargets | None = None
) -> Segments:
    """Entry s * B + b is segment s of environment b. `length` divides T; the memory is that before each segment."""
    observations = rollout.observations
    return Segments(
        observations=to_segments(observations, length)
        if isinstance(observations, Tensor)
        else {name: to_segments(part, length) for name, part in observations.items()},
        actions=to_segments(rollout.actions, length),
        log_probs=to_segments(rollout.log_probs, length),
        values=to_segments(rollout.values, length),
        advantages=to_segments(advantages, length),
        returns=to_segments(advantages + rollout.values, length),
        starts=to_segments(rollout.starts, length),
        memory={name: part.flatten(0, 1) for name, part in rollout.memory.items()},
        teacher_targets=None
        if teacher_targets is None
        else TeacherTargets(*(to_segments(field, length) for field in teacher_targets)),
    )


def to_segments(field: Tensor, length: int) -> Tensor:
    """[S * L, B, …] to [L, S * B, …]"""
    if length == 1:
        return field.flatten(0, 1).unsqueeze(0)
    return torch.unflatten(field, 0, (-1, length)).transpose(0, 1).flatten(1, 2)


def from_segments(segments: Tensor, env_count: int) -> Tensor:
    """[L, S * B, …] to [S * L, B, …]: what `to_segments` did, undone."""
    return torch.unflatten(segments, 1, (-1, env_count)).transpose(0, 1).flatten(0, 1)


def shuffled_minibatches(
    segments: Segments,
    per_minibatch: int,
    shuffler: np.random.Generator,
    *,
    normalize_advantages: bool = False,
    group: Group = ALONE,
) -> Iterator[Minibatch]:
    """One epoch of `per_minibatch` segments each, every segment exactly once.

    Normalised advantages have mean 0 and deviation 1 within a minibatch, taken over all processes of the group.
    """
    order = torch.from_numpy(shuffler.permutation(segments.count)).to(segments.log_probs.device)
    yield from ordered_minibatches(
        segments, order, per_minibatch, normalize_advantages=normalize_advantages, group=group
    )


def ordered_minibatches(
    segments: Segments,
    order: Tensor,
    per_minibatch: int,
    *,
    normalize_advantages: bool = False,
    group: Group = ALONE,
) -> Iterator[Minibatch]:
    """The segments that `order` [segments] names. All are gathered once; minibatches are slices without a copy."""

    def pieces(field: Tensor) -> tuple[Tensor, ...]:
        return torch.split(field.index_select(1, order), per_minibatch, dim=1)

    advantages = pieces(segments.advantages)
    if normalize_advantages:
        advantages = normalized(advantages, group)
    memory = {name: torch.split(part[order], per_minibatch) for name, part in segments.memory.items()}
    rows = zip(
        _observation_pieces(segments.observations, pieces),
        pieces(segments.actions),
        pieces(segments.log_probs),
        pieces(segments.values),
        advantages,
        pieces(segments.returns),
        pieces(segments.starts),
        strict=True,
    )
    weights = None if segments.weights is None else pieces(segments.weights)
    teacher_targets = (
        None if segments.teacher_targets is None else [pieces(field) for field in segments.teacher_targets]
    )
    for index, (observations, actions, log_probs, values, advantage, returns, starts) in enumerate(rows):
        yield Minibatch(
            observations,
            actions,
            log_probs,
            values,
            advantage,
            returns,
            starts,
            memory={name: parts[index] for name, parts in memory.items()},
            weights=None if weights is None else weights[index],
            teacher_targets=None
            if teacher_targets is None
            else TeacherTargets(*(field[index] for field in teacher_targets)),
        )


def _observation_pieces(
    observations: Observation, pieces: Callable[[Tensor], tuple[Tensor, ...]]
) -> Sequence[Observation]:
    if isinstance(observations, Tensor):
        return pieces(observations)
    parts = {name: pieces(part) for name, part in observations.items()}
    return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]


def normalized(pieces: tuple[Tensor, ...], group: Group) -> tuple[Tensor, ...]:
    """Normalises all minibatches of an epoch over all ranks, so that 2 ranks of n equal 1 rank of 2n."""
    stacked = torch.stack(pieces)  # [minibatches, L, M]
    count = stacked[0].numel() * group.world_size
    if count == 1:
        return pieces
    mean = group.sum_(stacked.sum(dim=(1, 2), keepdim=True)) / count
    centred = stacked - mean
    variance = group.sum_(centred.square().sum(dim=(1, 2), keepdim=True)) / (count - 1)
    return (centred / (variance.sqrt() + 1e-8)).unbind()


MIN_PRIORITY = 1e-6  # added to |advantage|, so that every segment can be drawn


def prioritized_minibatches(
    segments: Segments,
    per_minibatch: int,
    shuffler: np.random.Generator,
    *,
    alpha: float,
    beta: float,
    normalize_advantages: bool = False,
    group: Group = ALONE,
) -> Iterator[Minibatch]:
    """One epoch of draws with replacement, in which segments with large advantages come more often.

    Each epoch draws as many segments as the rollout has, segment i with probability p_i in proportion to
    (mean |advantage| over its steps)^alpha; `alpha` = 0 draws uniformly. A segment drawn counts with the weight
    (1 / (C * p_i))^beta in every term of the loss. At beta = 1 the expected gradient is that of the plain mean over all
    segments, whatever alpha is; below 1 it leans towards large advantages. Weights are not scaled by their maximum,
    which would undo that equality. Advantages are normalised over the whole rollout, before drawing: statistics of the
    drawn segments would lean towards the large ones.
    """
    probabilities = draw_probabilities(segments.advantages, alpha)
    drawn = torch.from_numpy(shuffler.choice(segments.count, segments.count, p=probabilities.numpy()))
    weights = (segments.count * probabilities).pow(-beta).to(segments.advantages)
    advantages = segments.advantages
    if normalize_advantages:
        (advantages,) = normalized((advantages,), group)
    weighted = replace(segments, advantages=advantages, weights=weights.unsqueeze(0))
    yield from ordered_minibatches(weighted, drawn.to(advantages.device), per_minibatch)


def draw_probabilities(advantages: Tensor, alpha: float) -> Tensor:
    """[C] float64 on the CPU, from advantages [L, C]; their sum is 1."""
    sizes = advantages.detach().cpu().double().abs().mean(dim=0) + MIN_PRIORITY
    priorities = (sizes / sizes.max()).pow(alpha)
    return priorities / priorities.sum()


@torch.no_grad()
def segments_for_epoch(epoch: int, segments: Segments, agent: Agent, rollout: Rollout, config: PpoConfig) -> Segments:
    """The same segments; after the first epoch, when the policy has changed, with V-trace's advantages."""
    if epoch == 0 or not config.vtrace.enabled:
        return segments
    length, env_count = segments.log_probs.shape[0], rollout.rewards.shape[1]
    distribution, _, _ = agent(segments.observations, segments.memory, segments.starts)
    present = from_segments(distribution.log_prob(segments.actions), env_count)
    advantages, returns = vtrace(rollout, present, config.gamma, config.gae_lambda, config.vtrace)
    return replace(segments, advantages=to_segments(advantages, length), returns=to_segments(returns, length))


def epoch_minibatches(
    segments: Segments, config: PpoConfig, progress: float, shuffler: np.random.Generator, group: Group
) -> Iterator[Minibatch]:
    per_minibatch = config.minibatch_size // segments.log_probs.shape[0]
    normalize = config.normalize_advantages
    asked = config.prioritized
    if not asked.enabled:
        return shuffled_minibatches(segments, per_minibatch, shuffler, normalize_advantages=normalize, group=group)
    return prioritized_minibatches(
        segments,
        per_minibatch,
        shuffler,
        alpha=asked.alpha,
        beta=value_at(asked.beta, progress),
        normalize_advantages=normalize,
        group=group,
    )
