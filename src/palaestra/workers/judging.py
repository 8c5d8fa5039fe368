"""Evaluation while training: the seeds of a plan are dealt to the ranks like cards, so that nobody waits for long."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from palaestra.contracts.evaluation import EvaluationPlan, EvaluationReport
from palaestra.envs.build import make_playable
from palaestra.evaluation.play import play_episodes
from palaestra.training.device import on_cpu
from palaestra.training.sharing import gather_episodes

if TYPE_CHECKING:
    from palaestra.contracts.clock import Clock
    from palaestra.training.state import TrainingState
    from palaestra.workers.session import RunSession


def judge(plan: EvaluationPlan, state: TrainingState, session: RunSession, clock: Clock) -> EvaluationReport | None:
    """A collective. For the leader the report of the whole plan, as if it had played it alone; else None."""
    group = state.group
    began = clock.monotonic()
    own = replace(plan, seeds=plan.seeds[group.rank :: group.world_size])
    agent = on_cpu(state.agent, state.config.policy)
    episodes = []
    for episode in play_episodes(own, agent, partial(make_playable, state.config.env)):
        episodes.append(episode)
        session.alive("evaluate")
    hands = gather_episodes(episodes, group)
    if not group.is_leader:
        return None
    dealt = [hands[turn % group.world_size][turn // group.world_size] for turn in range(len(plan.seeds))]
    return EvaluationReport(plan, tuple(dealt), clock.monotonic() - began, complete=True)
