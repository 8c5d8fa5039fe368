"""The engine for every network and device: rollouts and updates in torch."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from palaestra.algorithms.advantages import estimate_advantages
from palaestra.algorithms.ppo.kickstart import Tuition, lesson_weights
from palaestra.algorithms.ppo.update import update
from palaestra.algorithms.rollout import Rollout, collect_rollout
from palaestra.core.reports import PhaseTimes, UpdateStats
from palaestra.training.engines.base import TORCH_NAME, Iteration
from palaestra.training.engines.worlds import EngineWorlds, InsideSteps

if TYPE_CHECKING:
    from palaestra.algorithms.rollout import Stepped
    from palaestra.training.state import TrainingState


class TorchEngine:
    """Keeps nothing to itself but worlds that it steps."""

    name = TORCH_NAME

    def __init__(self, description: str = TORCH_NAME, worlds: EngineWorlds | None = None) -> None:
        """`description`: also why not native, where that was looked at. `worlds`: of the state's environments."""
        self.description = description
        self._worlds = worlds

    def iterate(self, state: TrainingState) -> Iteration:
        began = perf_counter()
        rollout, state.memory, episodes = collect_rollout(
            state.agent, self._stepped(state), state.tape, state.memory, state.sampler, state.stretch
        )
        rollout = _scale_rewards(state, rollout)
        played = perf_counter()
        stats, metrics = _learn(state, rollout)
        return Iteration(stats, episodes, PhaseTimes(played - began, perf_counter() - played), metrics)

    def _stepped(self, state: TrainingState) -> Stepped:
        if self._worlds is None:
            return state.envs
        self._worlds.take()
        return InsideSteps(self._worlds, state.envs)

    def export_env_state(self) -> None:
        if self._worlds is not None:
            self._worlds.export_env_state()

    def invalidate(self) -> None:
        if self._worlds is not None:
            self._worlds.invalidate()


TORCH = TorchEngine()


def _scale_rewards(state: TrainingState, rollout: Rollout) -> Rollout:
    scaler = state.agent.return_scaler
    if scaler is None:
        return rollout
    rewards, state.reward_sums = scaler.scale(
        rollout.rewards, rollout.ended, state.reward_sums, state.config.ppo.gamma, state.group.stack
    )
    return replace(rollout, rewards=rewards)


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
