"""How a rollout is cut into minibatches: every sample exactly once per epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from palaestra.policies.base import Observation
    from palaestra.training.rollout import Rollout


@dataclass(frozen=True)
class Minibatch:
    """M samples as one step of M environments; every tensor starts with [1, M]."""

    observations: Observation
    actions: Tensor
    log_probs: Tensor  # under the policy that acted
    values: Tensor  # as judged while acting
    advantages: Tensor
    returns: Tensor


@dataclass(frozen=True)
class Batch:
    """A whole rollout, flat: every tensor starts with [T * B]. Returns are computed once, here, and never again."""

    observations: Observation
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


def flatten_rollout(rollout: Rollout, advantages: Tensor) -> Batch:
    observations = rollout.observations
    flat: Observation
    if isinstance(observations, Tensor):
        flat = observations.flatten(0, 1)
    else:
        flat = {name: part.flatten(0, 1) for name, part in observations.items()}
    return Batch(
        observations=flat,
        actions=rollout.actions.flatten(0, 1),
        log_probs=rollout.log_probs.flatten(),
        values=rollout.values.flatten(),
        advantages=advantages.flatten(),
        returns=(advantages + rollout.values).flatten(),
    )


def shuffled_minibatches(
    batch: Batch, size: int, shuffler: np.random.Generator, normalize_advantages: bool = False
) -> Iterator[Minibatch]:
    """One epoch. The batch is gathered once in its new order; minibatches are then slices without a copy.

    Normalised advantages have mean 0 and deviation 1 within each minibatch, all worked out in one go.
    """
    count = batch.log_probs.shape[0]
    order = torch.from_numpy(shuffler.permutation(count))
    observations: list[Observation]
    if isinstance(batch.observations, Tensor):
        observations = list(_slices(batch.observations, order, size))
    else:
        parts = {name: _slices(part, order, size) for name, part in batch.observations.items()}
        observations = [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    fields = (batch.actions, batch.log_probs, batch.values, batch.advantages, batch.returns)
    columns = [_slices(field, order, size) for field in fields]
    if normalize_advantages and size > 1:
        columns[3] = _normalized(columns[3])
    for row in zip(observations, *columns, strict=True):
        yield Minibatch(*row)


def _slices(field: Tensor, order: Tensor, size: int) -> tuple[Tensor, ...]:
    return torch.split(field.index_select(0, order).unsqueeze(0), size, dim=1)


def _normalized(columns: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    rows = torch.cat(columns)  # [minibatches, M]
    normal = (rows - rows.mean(dim=1, keepdim=True)) / (rows.std(dim=1, keepdim=True) + 1e-8)
    return torch.split(normal, 1)
