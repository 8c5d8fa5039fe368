"""The training loop: a generator that plays, learns and reports. It never calls up."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from palaestra.contracts.errors import NonFinite
from palaestra.contracts.reports import IterationReport, PhaseTimes, UpdateStats
from palaestra.training.advantages import estimate_advantages
from palaestra.training.compiling import compile_network
from palaestra.training.diagnostics import gradient_statistics, weight_statistics
from palaestra.training.intervals import is_due
from palaestra.training.kickstart import Tuition, lesson_weights
from palaestra.training.ppo import update
from palaestra.training.rollout import Rollout, collect_rollout
from palaestra.training.sharing import numbered, shared_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.contracts.episodes import EpisodeResult
    from palaestra.training.state import TrainingState


def train(state: TrainingState) -> Iterator[IterationReport]:
    """Iterate until `total_steps`. At every yield `state` is whole: it can be captured, judged, or left."""
    if state.config.policy.compile:
        compile_network(state.agent)  # here at last the weights are those to go on with
    while state.env_steps < state.config.total_steps:
        try:
            yield _iterate(state)
        except NonFinite as error:
            raise NonFinite(
                f"Update {state.iteration + 1} was stopped before its step: {error.message}", error.hint
            ) from error


def _iterate(state: TrainingState) -> IterationReport:
    began = perf_counter()
    rollout, episodes = _play(state)
    played = perf_counter()
    stats, metrics = _learn(state, rollout)
    learned = perf_counter()
    state.iteration += 1
    state.env_steps += state.config.ppo.batch_size * state.group.world_size
    report = IterationReport(
        iteration=state.iteration,
        env_steps=state.env_steps,
        update=stats,
        episodes=tuple(numbered(episodes, state.group, state.envs.count, state.env_steps)),
        times=PhaseTimes(rollout=played - began, learn=learned - played),
        metrics={**metrics, **_diagnose(state)},
    )
    return shared_report(report, state.group)


def _play(state: TrainingState) -> tuple[Rollout, list[EpisodeResult]]:
    rollout, state.memory, episodes = collect_rollout(
        state.agent, state.envs, state.tape, state.memory, state.sampler, state.stretch
    )
    scaler = state.agent.return_scaler
    if scaler is not None:
        rewards, state.reward_sums = scaler.scale(
            rollout.rewards, rollout.ended, state.reward_sums, state.config.ppo.gamma, state.group.stack
        )
        rollout = replace(rollout, rewards=rewards)
    return rollout, episodes


def _learn(state: TrainingState, rollout: Rollout) -> tuple[UpdateStats, dict[str, float]]:
    ppo = state.config.ppo
    progress = state.env_steps / state.config.total_steps
    advantages = estimate_advantages(rollout, ppo.gamma, ppo.gae_lambda)
    tuition = _tuition(state, rollout, progress)
    stats = update(
        state.agent,
        state.optimizer,
        rollout,
        advantages,
        ppo,
        progress,
        state.shuffler,
        stretch=state.stretch,
        group=state.group,
        tuition=tuition,
    )
    # Only now: within an iteration, acting and learning must see the same normalised observations.
    state.agent.take_in(rollout.observations, state.group.stack)
    state.tape.rewind()
    return stats, {} if tuition is None else tuition.metrics()


def _tuition(state: TrainingState, rollout: Rollout, progress: float) -> Tuition | None:
    """The teacher's part in this update; None once its coefficients are 0."""
    weights = lesson_weights(state.config.ppo.kickstart, progress)
    if state.teacher is None or weights.are_zero:
        return None
    return Tuition(state.teacher.teach(rollout, state.agent), weights)


def _diagnose(state: TrainingState) -> dict[str, float]:
    """After the iteration was counted: what was asked for beyond the update's own figures."""
    metrics: dict[str, float] = {}
    if state.curriculum is not None:
        metrics |= state.curriculum.count_results(state.group)
    if state.config.ppo.gradient_statistics:
        metrics |= gradient_statistics(state.agent)
    if is_due(state.config.analyze_weights_interval, state.iteration - 1, state.iteration):
        metrics |= weight_statistics(state.agent)
    return metrics
