"""Prioritised segments: columns with large advantages are learned from more often.

Each epoch draws as many columns as the rollout has, with replacement, column i with probability p_i in proportion to
(mean |advantage| over its steps)^alpha. A column drawn counts with the weight (1 / (C * p_i))^beta in every term of the
loss. At beta = 1 the expected gradient is that of the plain mean over all columns, whatever alpha is; below 1 it leans
towards the surprising ones. Weights are not scaled by their maximum, which would undo that equality.

Normalised advantages are taken over the whole rollout, before drawing: statistics of what happened to be drawn would
lean towards the large ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from palaestra.algorithms.group import ALONE, Group
from palaestra.algorithms.ppo.minibatches import normalized, ordered_minibatches

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from torch import Tensor

    from palaestra.algorithms.ppo.minibatches import Columns, Minibatch

SMALLEST = 1e-6  # added to |advantage|, so that every column can be drawn


def prioritized_minibatches(
    columns: Columns,
    per_minibatch: int,
    shuffler: np.random.Generator,
    *,
    alpha: float,
    beta: float,
    normalize_advantages: bool = False,
    group: Group = ALONE,
) -> Iterator[Minibatch]:
    """One epoch of draws; `alpha` = 0 draws uniformly, still with replacement."""
    chances = draw_chances(columns.advantages, alpha)
    drawn = torch.from_numpy(shuffler.choice(columns.count, columns.count, p=chances.numpy()))
    weights = (columns.count * chances).pow(-beta).to(columns.advantages)
    advantages = columns.advantages
    if normalize_advantages:
        (advantages,) = normalized((advantages,), group)
    weighted = replace(columns, advantages=advantages, weights=weights.unsqueeze(0))
    yield from ordered_minibatches(weighted, drawn.to(advantages.device), per_minibatch)


def draw_chances(advantages: Tensor, alpha: float) -> Tensor:
    """[C] float64 on the CPU, from advantages [L, C]; their sum is 1."""
    sizes = advantages.detach().cpu().double().abs().mean(dim=0) + SMALLEST
    priorities = (sizes / sizes.max()).pow(alpha)
    return priorities / priorities.sum()
