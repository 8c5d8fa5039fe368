"""One PPO update: several epochs of minibatches over one rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from palaestra.algorithms.group import ALONE, Group
from palaestra.algorithms.ppo.loss import LossTerms, LossWeights, ppo_loss
from palaestra.algorithms.ppo.minibatches import Segments, epoch_minibatches, segments_for_epoch, split_rollout
from palaestra.algorithms.schedules import value_at
from palaestra.core.errors import UsageError
from palaestra.core.reports import PpoStats

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from palaestra.algorithms.optimizers import FlatOptimizer
    from palaestra.algorithms.ppo.kickstart import Distillation
    from palaestra.algorithms.rollout import Rollout
    from palaestra.config.ppo import PpoConfig
    from palaestra.policies.agent import Agent


def update(
    agent: Agent,
    optimizer: FlatOptimizer,
    rollout: Rollout,
    advantages: Tensor,
    config: PpoConfig,
    progress: float,
    shuffler: np.random.Generator,
    *,
    segment_length: int = 1,
    group: Group = ALONE,
    distillation: Distillation | None = None,
) -> PpoStats:
    """Updates the policy on one rollout, and on a teacher's targets for it. `progress` in [0, 1] sets the schedules."""
    learning_rate = value_at(config.learning_rate, progress)
    optimizer.learning_rate = learning_rate
    weights = LossWeights(
        clip=value_at(config.clip, progress),
        clip_value=config.clip_value_loss,
        value=config.value_coefficient,
        entropy=value_at(config.entropy_coefficient, progress),
    )
    segments = split_rollout(
        rollout, advantages, segment_length, distillation.teacher_targets if distillation else None
    )
    accumulator = StatsAccumulator()
    for epoch in range(config.update_epochs):
        present = segments_for_epoch(epoch, segments, agent, rollout, config)
        for minibatch in epoch_minibatches(present, config, progress, shuffler, group):
            distribution, value, _ = agent(minibatch.observations, minibatch.memory, minibatch.starts)
            log_prob, entropy = distribution.log_prob(minibatch.actions), distribution.entropy()
            gradients, terms = ppo_loss(log_prob, entropy, value, minibatch, weights)
            if distillation is None:
                optimizer.backward((log_prob, entropy, value), gradients)
            else:
                teacher_log_prob, all_gradients = distillation.add_gradients(gradients, value, distribution, minibatch)
                optimizer.backward((log_prob, entropy, value, teacher_log_prob), all_gradients)
            group.average_(optimizer.grad)
            accumulator.add(terms, optimizer.step(config.max_grad_norm))
        if config.target_kl is not None and accumulator.last_kl(group) > config.target_kl:
            break
    return accumulator.stats(segments, learning_rate)


def segment_length_of(agent: Agent, config: PpoConfig) -> int:
    """How many steps an update takes through memory at once: 1 without memory, else the segment length."""
    if not agent.initial_memory(1):
        return 1
    length = config.segment_length or config.horizon
    if config.minibatch_size % length:
        raise UsageError(
            f"ppo.minibatch_size={config.minibatch_size} does not hold whole segments of {length} steps, "
            "which this policy's memory needs.",
            f"Try ppo.minibatch_size={max(1, round(config.minibatch_size / length)) * length}, "
            "or another ppo.segment_length.",
        )
    return length


class StatsAccumulator:
    """Collects the terms of every minibatch; means are taken once, at the end of the update."""

    def __init__(self) -> None:
        self.terms: list[LossTerms] = []
        self.norms: list[float] = []

    def add(self, terms: LossTerms, norm: float) -> None:
        self.terms.append(terms)
        self.norms.append(norm)

    def last_kl(self, group: Group) -> float:
        """Over all processes: they stop together or not at all."""
        last = self.terms[-1]
        return float(group.average_((last.ratio - 1 - last.log_ratio).mean()))

    @torch.no_grad()
    def stats(self, segments: Segments, learning_rate: float) -> PpoStats:
        log_ratio = torch.cat([terms.log_ratio for terms in self.terms], dim=1)
        ratio = torch.cat([terms.ratio for terms in self.terms], dim=1)
        clipped = torch.cat([terms.clipped for terms in self.terms], dim=1)
        return PpoStats(
            policy_loss=-_mean([terms.objective for terms in self.terms]),
            value_loss=0.5 * _mean([terms.squared_error for terms in self.terms]),
            entropy=_mean([terms.entropy for terms in self.terms]),
            old_approx_kl=float(-log_ratio.mean()),
            approx_kl=float((ratio - 1 - log_ratio).mean()),
            clipfrac=float(clipped.float().mean()),
            explained_variance=explained_variance(segments.values, segments.returns),
            grad_norm=sum(self.norms) / len(self.norms),
            learning_rate=learning_rate,
            minibatches=len(self.norms),
        )


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1: the critic knew the returns; 0: no better than their mean. NaN when the returns do not vary."""
    spread = returns.var(correction=0)
    if spread == 0:
        return float("nan")
    return float(1 - (returns - values).var(correction=0) / spread)


def _mean(values: list[Tensor]) -> float:
    return float(torch.cat(values, dim=1).mean())
