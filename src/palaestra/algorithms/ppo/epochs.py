"""What each epoch of an update learns from: the same columns, their order or choice, and their advantages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from palaestra.algorithms.ppo.minibatches import cut, shuffled_minibatches, uncut
from palaestra.algorithms.ppo.priorities import prioritized_minibatches
from palaestra.algorithms.schedules import value_at
from palaestra.algorithms.vtrace import vtrace

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from palaestra.algorithms.group import Group
    from palaestra.algorithms.ppo.minibatches import Columns, Minibatch
    from palaestra.algorithms.rollout import Rollout
    from palaestra.config.ppo import PpoConfig
    from palaestra.policies.agent import Agent


@torch.no_grad()
def columns_for_epoch(epoch: int, columns: Columns, agent: Agent, rollout: Rollout, config: PpoConfig) -> Columns:
    """The columns as cut, or with V-trace's advantages once the policy has moved, which is after the first epoch."""
    if epoch == 0 or not config.vtrace.enabled:
        return columns
    length, env_count = columns.log_probs.shape[0], rollout.rewards.shape[1]
    distribution, _, _ = agent(columns.observations, columns.memory, columns.starts)
    present = uncut(distribution.log_prob(columns.actions), env_count)
    advantages, returns = vtrace(rollout, present, config.gamma, config.gae_lambda, config.vtrace)
    return replace(columns, advantages=cut(advantages, length), returns=cut(returns, length))


def epoch_minibatches(
    columns: Columns, config: PpoConfig, progress: float, shuffler: np.random.Generator, group: Group
) -> Iterator[Minibatch]:
    per_minibatch = config.minibatch_size // columns.log_probs.shape[0]
    normalize = config.normalize_advantages
    asked = config.prioritized
    if not asked.enabled:
        return shuffled_minibatches(columns, per_minibatch, shuffler, normalize_advantages=normalize, group=group)
    return prioritized_minibatches(
        columns,
        per_minibatch,
        shuffler,
        alpha=asked.alpha,
        beta=value_at(asked.beta, progress),
        normalize_advantages=normalize,
        group=group,
    )
