"""What DQN, SAC and TD3 have in common: acting, storing steps, and deciding which updates are due.

An iteration is a fixed number of steps (`steps_per_iteration`), inside which updates follow steps as the settings say.
So it is a function of the state alone, and logging, saving and stopping cost what they cost with PPO.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms import serialization
from palaestra.algorithms.base import TORCH_ENGINE, Iteration, Progress
from palaestra.core.reports import PhaseTimes, UpdateFigures
from palaestra.core.seeds import draw_seed
from palaestra.core.spaces import BoxSpec, DiscreteSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.group import Group
    from palaestra.config.off_policy import OffPolicyConfig
    from palaestra.config.train import TrainConfig
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import Arrays, VectorEnvs
    from palaestra.policies.agent import Agent


class OffPolicy(ABC):
    """An `Algorithm` (see `palaestra.algorithms.base`) without its networks, its exploration and its update."""

    name: str
    engine = TORCH_ENGINE
    replicated: frozenset[str]  # entries of `_capture_learning` that are equal on all ranks

    def __init__(
        self,
        config: TrainConfig,
        settings: OffPolicyConfig,
        envs: VectorEnvs,
        buffer: ReplayBuffer,
        agent: Agent,
        group: Group,
        description: str = TORCH_ENGINE,
    ) -> None:
        self.config = config
        self.settings = settings
        self.envs = envs
        self.buffer = buffer
        self.agent = agent
        self.group = group
        self.description = description
        self.rng = np.random.default_rng(draw_seed(config.seed, "replay", group.rank))  # random actions and batches
        self.update_count = 0  # over the whole run
        self._random_actions = random_actions_of(agent.interface)

    @abstractmethod
    def explore(self, observations: Arrays, progress: Progress) -> NDArray[Any]:
        """Actions [B, …] of the policy, with the noise that belongs to training."""

    @abstractmethod
    def update(self, progress: Progress) -> dict[str, float]:
        """One gradient step on one batch; its figures by metric name, of which the iteration reports the means."""

    @abstractmethod
    def capture_learning(self) -> dict[str, Any]:
        """Other networks than the policy, optimizers and generators: copied, basic containers and tensors only."""

    @abstractmethod
    def restore_learning(self, saved: Mapping[str, Any]) -> None: ...

    @property
    def interface(self) -> EnvInterface:
        return self.agent.interface

    def policy(self) -> Agent:
        return self.agent

    def weights(self) -> Agent:
        return self.agent

    def export_env_state(self) -> None:  # noqa: B027  not abstract: this is what it does
        """Environments are stepped by Python."""

    def reset_envs(self, seeds: Sequence[int]) -> None:
        self.envs.reset(list(seeds), self.buffer.current)

    def iterate(self, progress: Progress) -> Iteration:
        settings, group = self.settings, self.group
        episodes: list[EpisodeResult] = []
        figures: list[dict[str, float]] = []
        learning_seconds, began = 0.0, perf_counter()
        steps = progress.env_steps  # over all ranks
        steps_at_once = self.envs.count * group.world_size
        for _ in range(settings.steps_per_iteration // self.envs.count):
            now = Progress(progress.iteration, steps, progress.total_steps)
            episodes.extend(self._step(now))
            due = updates_due(settings, steps, steps + steps_at_once)
            steps += steps_at_once
            if due:
                learning_began = perf_counter()
                now = Progress(progress.iteration, steps, progress.total_steps)
                for _ in range(due):
                    figures.append(self.update(now))
                    self.update_count += 1
                learning_seconds += perf_counter() - learning_began
        times = PhaseTimes(perf_counter() - began - learning_seconds, learning_seconds)
        done = Progress(progress.iteration, steps, progress.total_steps)
        return Iteration(
            settings.steps_per_iteration,
            UpdateFigures(means_of(figures)),
            episodes,
            times,
            {"replay/transitions": float(self.buffer.transitions), **self.exploration_metrics(done)},
        )

    def exploration_metrics(self, progress: Progress) -> dict[str, float]:  # noqa: ARG002  some have none
        return {}

    def _step(self, progress: Progress) -> list[EpisodeResult]:
        buffer = self.buffer
        if progress.env_steps < self.settings.learning_starts:
            actions = self._random_actions(self.rng, self.envs.count)
        else:
            actions = self.explore(buffer.current, progress)
        result = self.envs.step(actions, buffer.following)
        buffer.add(actions, result.rewards, result.endings)
        return [ending.episode for ending in result.endings]

    def capture(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "update_count": self.update_count,
            "replay_rng": serialization.generator_state(self.rng),
            **self.capture_learning(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.update_count = int(saved["update_count"])
        serialization.set_generator_state(self.rng, saved["replay_rng"])
        self.restore_learning(saved)


def updates_due(settings: OffPolicyConfig, before: int, after: int) -> int:
    """How many updates follow the steps in (before, after], over all environments and ranks.

    Multiples of the interval are counted, so that a counter that jumps by many environments misses none.
    """
    interval = settings.train_interval
    first = max(before, settings.learning_starts)
    return max(0, after // interval - first // interval) * settings.gradient_steps


def means_of(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each figure over the updates that have it."""
    values: dict[str, list[float]] = {}
    for one in figures:
        for name, value in one.items():
            values.setdefault(name, []).append(value)
    return {name: float(np.mean(those)) for name, those in values.items()}


def random_actions_of(interface: EnvInterface) -> Any:
    """A function (rng, count) that draws actions uniformly from the action space, as the policy would give them."""
    match interface.action_space:
        case DiscreteSpec(count=choices):
            return lambda rng, count: rng.integers(0, choices, count)
        case BoxSpec() as box:
            low = np.broadcast_to(np.array(box.low, np.float32), box.size)
            high = np.broadcast_to(np.array(box.high, np.float32), box.size)
            return lambda rng, count: rng.uniform(low, high, (count, box.size)).astype(np.float32)
        case _:
            raise AssertionError("the algorithm has refused other action spaces")
