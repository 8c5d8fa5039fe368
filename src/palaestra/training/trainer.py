"""The training loop: a generator that iterates the algorithm and reports. It never calls its consumer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from palaestra.core.errors import NonFinite
from palaestra.core.lazy_import import lazy_import
from palaestra.core.reports import IterationReport, PhaseTimes
from palaestra.training.distributed.reports import numbered, shared_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.algorithms.base import Iteration
    from palaestra.policies import diagnostics
    from palaestra.training.state import TrainingState
else:
    diagnostics = lazy_import("palaestra.policies.diagnostics")

logger = logging.getLogger(__name__)


def train(state: TrainingState) -> Iterator[IterationReport]:
    """Iterate until `total_steps`. At every yield `state` is whole: it can be captured, evaluated, or abandoned."""
    logger.info("Engine: %s", state.algorithm.description)
    while state.env_steps < state.config.total_steps:
        waited_before = state.group.waited_seconds
        try:
            done = state.algorithm.iterate(state.progress)
        except NonFinite as error:
            raise NonFinite(
                f"Update {state.iteration + 1} was stopped before its step: {error.message}", error.hint
            ) from error
        yield _count_iteration(state, done, state.group.waited_seconds - waited_before)


def _count_iteration(state: TrainingState, done: Iteration, waiting: float) -> IterationReport:
    state.iteration += 1
    state.env_steps += done.env_steps * state.group.world_size
    report = IterationReport(
        iteration=state.iteration,
        env_steps=state.env_steps,
        update=done.update,
        episodes=numbered(done.episodes, state.group, state.envs.count, state.env_steps),
        times=PhaseTimes(done.times.rollout, done.times.learn, waiting=waiting),
        metrics={**done.metrics, **_diagnose(state)},
    )
    return shared_report(report, state.group)


def _diagnose(state: TrainingState) -> dict[str, float]:
    """After the iteration was counted: what was asked for beyond the update's own figures."""
    metrics: dict[str, float] = {}
    if state.curriculum is not None:
        metrics |= state.curriculum.count_results(state.group)
    if is_due(state.config.analyze_weights_interval, state.iteration - 1, state.iteration):
        metrics |= diagnostics.weight_statistics(state.algorithm.policy())
    return metrics


def is_due(interval: int, before: int, after: int) -> bool:
    """True when a multiple of `interval` lies in (before, after]: a counter that jumps never misses a firing."""
    return interval > 0 and after // interval > before // interval
