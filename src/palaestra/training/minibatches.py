"""How a rollout is cut into minibatches: every sample exactly once per epoch.

A rollout [T, B] becomes columns: stretches of L steps of one environment, [L, C]. Policies with memory learn from whole
stretches, starting each from the memory that it had there; all others have L = 1, and a column is a single step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from palaestra.training.group import ALONE, Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from palaestra.policies.base import Memory, Observation
    from palaestra.training.rollout import Rollout


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

    @property
    def count(self) -> int:
        return self.log_probs.shape[1]


Minibatch = Columns  # some of the columns


def cut_rollout(rollout: Rollout, advantages: Tensor, length: int) -> Columns:
    """Column s * B + b is stretch s of environment b. `length` divides T; the memory is that before each stretch."""

    def cut(field: Tensor) -> Tensor:
        """[S * L, B, …] to [L, S * B, …]"""
        if length == 1:
            return field.flatten(0, 1).unsqueeze(0)
        return torch.unflatten(field, 0, (-1, length)).transpose(0, 1).flatten(1, 2)

    observations = rollout.observations
    return Columns(
        observations=cut(observations)
        if isinstance(observations, Tensor)
        else {name: cut(part) for name, part in observations.items()},
        actions=cut(rollout.actions),
        log_probs=cut(rollout.log_probs),
        values=cut(rollout.values),
        advantages=cut(advantages),
        returns=cut(advantages + rollout.values),
        starts=cut(rollout.starts),
        memory={name: part.flatten(0, 1) for name, part in rollout.memory.items()},
    )


def shuffled_minibatches(
    columns: Columns,
    per_minibatch: int,
    shuffler: np.random.Generator,
    *,
    normalize_advantages: bool = False,
    group: Group = ALONE,
) -> Iterator[Minibatch]:
    """One epoch of `per_minibatch` columns each.

    Everything is gathered once in its new order; minibatches are then slices without a copy. Normalised advantages
    have mean 0 and deviation 1 within a minibatch, taken over all processes of the group.
    """
    order = torch.from_numpy(shuffler.permutation(columns.count)).to(columns.log_probs.device)

    def pieces(field: Tensor) -> tuple[Tensor, ...]:
        return torch.split(field.index_select(1, order), per_minibatch, dim=1)

    advantages = pieces(columns.advantages)
    if normalize_advantages:
        advantages = _normalized(advantages, group)
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
    for index, (observations, actions, log_probs, values, advantage, returns, starts) in enumerate(rows):
        kept = {name: parts[index] for name, parts in memory.items()}
        yield Minibatch(observations, actions, log_probs, values, advantage, returns, starts, kept)


def _observation_pieces(
    observations: Observation, pieces: Callable[[Tensor], tuple[Tensor, ...]]
) -> Sequence[Observation]:
    if isinstance(observations, Tensor):
        return pieces(observations)
    parts = {name: pieces(part) for name, part in observations.items()}
    return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]


def _normalized(pieces: tuple[Tensor, ...], group: Group) -> tuple[Tensor, ...]:
    """All minibatches of an epoch at once; a group adds up its sums, so that 2 processes of n equal 1 of 2n."""
    stacked = torch.stack(pieces)  # [minibatches, L, M]
    count = stacked[0].numel() * group.world_size
    if count == 1:
        return pieces
    mean = group.sum_(stacked.sum(dim=(1, 2), keepdim=True)) / count
    centred = stacked - mean
    variance = group.sum_(centred.square().sum(dim=(1, 2), keepdim=True)) / (count - 1)
    return (centred / (variance.sqrt() + 1e-8)).unbind()
