"""How a rollout is cut into minibatches: every sample exactly once per epoch.

A rollout [T, B] becomes columns: stretches of L steps of one environment, [L, C]. Policies with memory learn from whole
stretches, starting each from the memory that it had there; all others have L = 1, and a column is a single step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from palaestra.algorithms.group import ALONE, Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from palaestra.algorithms.rollout import Rollout
    from palaestra.policies.base import Memory, Observation


class Lesson(NamedTuple):
    """What a teacher would do, and what it expects; see kickstart."""

    actions: Tensor  # [L, C, …], drawn from the teacher's distribution
    values: Tensor  # [L, C] in the student's scale of rewards


@dataclass(frozen=True)
class Columns:
    """Stretches side by side; every tensor starts with [L, C]. Returns are computed once, here, and never again."""

    observations: Observation
    actions: Tensor
    log_probs: Tensor  # under the policy that acted
    values: Tensor  # as judged while acting
    advantages: Tensor
    returns: Tensor
    starts: Tensor  # bool
    memory: Memory  # each [C, …], before the first step of the stretch
    weights: Tensor | None = None  # [1, C] importance of each column in the loss; None: all alike
    lesson: Lesson | None = None  # what a teacher would do

    @property
    def count(self) -> int:
        return self.log_probs.shape[1]


Minibatch = Columns  # some of the columns


def cut_rollout(rollout: Rollout, advantages: Tensor, length: int, lesson: Lesson | None = None) -> Columns:
    """Column s * B + b is stretch s of environment b. `length` divides T; the memory is that before each stretch."""
    observations = rollout.observations
    return Columns(
        observations=cut(observations, length)
        if isinstance(observations, Tensor)
        else {name: cut(part, length) for name, part in observations.items()},
        actions=cut(rollout.actions, length),
        log_probs=cut(rollout.log_probs, length),
        values=cut(rollout.values, length),
        advantages=cut(advantages, length),
        returns=cut(advantages + rollout.values, length),
        starts=cut(rollout.starts, length),
        memory={name: part.flatten(0, 1) for name, part in rollout.memory.items()},
        lesson=None if lesson is None else Lesson(*(cut(field, length) for field in lesson)),
    )


def cut(field: Tensor, length: int) -> Tensor:
    """[S * L, B, …] to [L, S * B, …]"""
    if length == 1:
        return field.flatten(0, 1).unsqueeze(0)
    return torch.unflatten(field, 0, (-1, length)).transpose(0, 1).flatten(1, 2)


def uncut(columns: Tensor, env_count: int) -> Tensor:
    """[L, S * B, …] to [S * L, B, …]: what `cut` did, undone."""
    return torch.unflatten(columns, 1, (-1, env_count)).transpose(0, 1).flatten(0, 1)


def shuffled_minibatches(
    columns: Columns,
    per_minibatch: int,
    shuffler: np.random.Generator,
    *,
    normalize_advantages: bool = False,
    group: Group = ALONE,
) -> Iterator[Minibatch]:
    """One epoch of `per_minibatch` columns each, every column exactly once.

    Normalised advantages have mean 0 and deviation 1 within a minibatch, taken over all processes of the group.
    """
    order = torch.from_numpy(shuffler.permutation(columns.count)).to(columns.log_probs.device)
    yield from ordered_minibatches(
        columns, order, per_minibatch, normalize_advantages=normalize_advantages, group=group
    )


def ordered_minibatches(
    columns: Columns,
    order: Tensor,
    per_minibatch: int,
    *,
    normalize_advantages: bool = False,
    group: Group = ALONE,
) -> Iterator[Minibatch]:
    """The columns that `order` [columns] names. All are gathered once; minibatches are slices without a copy."""

    def pieces(field: Tensor) -> tuple[Tensor, ...]:
        return torch.split(field.index_select(1, order), per_minibatch, dim=1)

    advantages = pieces(columns.advantages)
    if normalize_advantages:
        advantages = normalized(advantages, group)
    memory = {name: torch.split(part[order], per_minibatch) for name, part in columns.memory.items()}
    rows = zip(
        _observation_pieces(columns.observations, pieces),
        pieces(columns.actions),
        pieces(columns.log_probs),
        pieces(columns.values),
        advantages,
        pieces(columns.returns),
        pieces(columns.starts),
        strict=True,
    )
    weights = None if columns.weights is None else pieces(columns.weights)
    lessons = None if columns.lesson is None else [pieces(field) for field in columns.lesson]
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
            lesson=None if lessons is None else Lesson(*(field[index] for field in lessons)),
        )


def _observation_pieces(
    observations: Observation, pieces: Callable[[Tensor], tuple[Tensor, ...]]
) -> Sequence[Observation]:
    if isinstance(observations, Tensor):
        return pieces(observations)
    parts = {name: pieces(part) for name, part in observations.items()}
    return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]


def normalized(pieces: tuple[Tensor, ...], group: Group) -> tuple[Tensor, ...]:
    """All minibatches of an epoch at once; a group adds up its sums, so that 2 processes of n equal 1 of 2n."""
    stacked = torch.stack(pieces)  # [minibatches, L, M]
    count = stacked[0].numel() * group.world_size
    if count == 1:
        return pieces
    mean = group.sum_(stacked.sum(dim=(1, 2), keepdim=True)) / count
    centred = stacked - mean
    variance = group.sum_(centred.square().sum(dim=(1, 2), keepdim=True)) / (count - 1)
    return (centred / (variance.sqrt() + 1e-8)).unbind()
