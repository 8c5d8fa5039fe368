"""What DQN, SAC and TD3 have in common, whichever engine computes it: acting, storing steps, and which updates are due.

An iteration is a fixed number of steps (`steps_per_iteration`), inside which updates follow steps as the settings say.
So it is a function of the state alone, and logging, saving and stopping cost what they cost with PPO.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.base import TORCH_ENGINE, Iteration, Progress
from palaestra.algorithms.counter_rng import RandomStreams
from palaestra.core.errors import NonFinite
from palaestra.core.reports import PhaseTimes, UpdateFigures
from palaestra.core.spaces import BoxSpec, DiscreteSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.counter_rng import CounterRng
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.stepping import SteppableEnvs
    from palaestra.config.off_policy import OffPolicyConfig
    from palaestra.config.train import TrainConfig
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.spaces import EnvInterface, SpaceSpec
    from palaestra.envs.vector.in_process import Arrays, Ending, VectorEnvs
    from palaestra.policies.agent import Agent

CRITIC_ENTRIES = ("critics", "critic_target", "critic_optimizer")  # of the captures of SAC and TD3


class OffPolicy(ABC):
    """An `Algorithm` (see `palaestra.algorithms.base`) without its networks, its exploration and its updates.

    Actions of continuous spaces are in [-1, 1] here and in the replay buffer; the environments get them scaled.
    """

    name: str
    engine: str
    replicated: frozenset[str]  # entries of `capture` that are equal on all ranks
    starts_randomly = True  # actions are random until `learning_starts`

    def __init__(
        self,
        config: TrainConfig,
        settings: OffPolicyConfig,
        envs: VectorEnvs,
        buffer: ReplayBuffer,
        group: Group,
        description: str = TORCH_ENGINE,
    ) -> None:
        self.config = config
        self.settings = settings
        self.envs = envs
        self.buffer = buffer
        self.group = group
        self.description = description
        self.update_count = 0  # over the whole run
        self.figures = FigureMeans()  # of the updates of this iteration
        self.scale_actions = action_scaling(envs.interface.action_space)
        self.rng = RandomStreams(config.seed, group.rank)

    @property
    @abstractmethod
    def interface(self) -> EnvInterface: ...

    @abstractmethod
    def policy(self) -> Agent: ...

    @abstractmethod
    def weights(self) -> Agent | Mapping[str, NDArray[np.float32]]: ...

    @abstractmethod
    def explore(self, observations: Arrays, now: Progress) -> NDArray[Any]:
        """Actions [B, …] of the policy, with the randomness that belongs to training."""

    @abstractmethod
    def learn(self, count: int, now: Progress) -> None:
        """`count` gradient steps on a batch each: counts them in `update_count` and adds their `figures`."""

    def after_steps(self, before: Progress, now: Progress) -> None:  # noqa: B027  most have nothing to do
        """After the updates that follow the steps in (before, now]: target updates that are counted by steps."""

    @abstractmethod
    def take_in(self, row_count: int) -> None:
        """The newest rows of the buffer, each seen once, for the statistics of observations. A collective."""

    @abstractmethod
    def capture_learning(self) -> dict[str, Any]:
        """Other networks than the policy, and optimizers: copied, basic containers and tensors only."""

    @abstractmethod
    def restore_learning(self, saved: Mapping[str, Any]) -> None: ...

    @property
    def replay_buffer(self) -> ReplayBuffer:
        return self.buffer

    def export_env_state(self) -> None:  # noqa: B027  not abstract: this is what it does
        """Environments are stepped by Python."""

    def reset_envs(self, seeds: Sequence[int]) -> None:
        """Episodes under way are cut, as by a time limit."""
        self.buffer.cut_episodes()
        self.envs.reset(list(seeds), self.buffer.current)

    def stepped_envs(self) -> SteppableEnvs:
        """What `iterate` steps; its state is in `envs` again after `export_env_state`."""
        return self.envs

    def iterate(self, progress: Progress) -> Iteration:
        began, learning_seconds = perf_counter(), 0.0
        self.figures = FigureMeans()
        envs = self.stepped_envs()
        episodes: list[EpisodeResult] = []
        row_count = self.settings.steps_per_iteration // self.envs.count
        now = progress
        for row in range(row_count):
            episodes.extend(self._step(envs, now))
            before, now = now, progress.after(self.envs.count * self.group.world_size * (row + 1))
            learning_seconds += self._learn(before, now, row + 1)
        self.buffer.refuse_non_finite(row_count)
        self.take_in(row_count)
        times = PhaseTimes(perf_counter() - began - learning_seconds, learning_seconds)
        return Iteration(
            self.settings.steps_per_iteration,
            UpdateFigures(self.figures.means()),
            episodes,
            times,
            {"replay/transitions": float(self.buffer.transitions), **self.exploration_metrics(now)},
        )

    def exploration_metrics(self, now: Progress) -> dict[str, float]:  # noqa: ARG002  some have none
        return {}

    def row_index(self, now: Progress) -> int:
        """How many times all environments of this process were stepped: the index of streams of exploration."""
        return now.env_steps // (self.envs.count * self.group.world_size)

    def random_actions(self, now: Progress) -> NDArray[Any]:
        """[B, …] uniformly from the action space."""
        return uniform_actions(
            self.interface.action_space, self.rng("exploration", self.row_index(now)), self.envs.count
        )

    def steps_not_in_buffer(self, now: Progress) -> int:
        """That were taken before the buffer was begun anew; 0 unless a resume went on without the rows."""
        return now.env_steps - self.buffer.total_rows * self.envs.count * self.group.world_size

    def store(
        self, actions: NDArray[Any], rewards: NDArray[np.float32] | Sequence[float], endings: Sequence[Ending]
    ) -> None:
        """Completes a row of the buffer."""
        self.buffer.add(actions, rewards, endings)

    def _step(self, envs: SteppableEnvs, now: Progress) -> list[EpisodeResult]:
        buffer = self.buffer
        is_random = self.starts_randomly and now.env_steps < self.settings.learning_starts
        actions = self.random_actions(now) if is_random else self.explore(buffer.current, now)
        result = envs.step(self.scale_actions(actions), buffer.following)
        self.store(actions, result.rewards, result.endings)
        return [ending.episode for ending in result.endings]

    def _learn(self, before: Progress, now: Progress, row_count: int) -> float:
        """The seconds that updates took which follow the steps in (before, now], `row_count` rows into the iteration"""
        began = perf_counter()
        due = updates_due(self.settings, before.env_steps, now.env_steps, self.steps_not_in_buffer(now))
        if due:
            try:
                self.learn(due, now)
            except NonFinite:
                self.buffer.refuse_non_finite(row_count)  # if the environment is the cause, it is named
                raise
        self.after_steps(before, now)
        return perf_counter() - began

    def clear_buffer(self) -> None:
        """After `restore`, where the rows of the buffer are not there: start with none."""
        self.buffer.clear()

    def capture(self) -> dict[str, Any]:
        """Without the rows of the replay buffer, which are saved apart."""
        return {
            "engine": self.engine,
            "update_count": self.update_count,
            "replay_buffer": self.buffer.capture(),
            **self.capture_learning(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.update_count = int(saved["update_count"])
        self.buffer.restore(saved["replay_buffer"])
        self.restore_learning(saved)


def updates_due(settings: OffPolicyConfig, before: int, after: int, not_in_buffer: int = 0) -> int:
    """How many updates follow the steps in (before, after], over all environments and ranks.

    They begin when `learning_starts` steps are in the buffer, which `not_in_buffer` steps are not.
    """
    first = max(before, settings.learning_starts + not_in_buffer)
    return multiples_between(settings.train_interval, first, after) * settings.gradient_steps


def multiples_between(interval: int, before: int, after: int) -> int:
    """How many multiples of `interval` lie in (before, after]: a counter that jumps by many steps misses none."""
    return max(0, after // interval - before // interval)


class FigureMeans:
    """Means over the updates that have a figure, by metric name; engines add sums of as many updates as they made."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, figures: Mapping[str, float], count: int = 1) -> None:
        """`figures`: sums over `count` updates"""
        for name, value in figures.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] = self._counts.get(name, 0) + count

    def means(self) -> dict[str, float]:
        return {name: value / self._counts[name] for name, value in self._sums.items()}


def uniform_actions(space: SpaceSpec, rng: CounterRng, count: int) -> NDArray[Any]:
    """[count, …] as policies give them: choices from 0, entries of boxes in [-1, 1)."""
    match space:
        case DiscreteSpec(count=choices):
            return rng.below(choices, count)
        case BoxSpec(size=size):
            return 2 * rng.uniform((count, size)) - 1
        case _:
            raise AssertionError("`policies.roles` refuses other action spaces")


def action_scaling(space: SpaceSpec) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """From [-1, 1] to the bounds of a box, in float32; choices stay as they are."""
    if not isinstance(space, BoxSpec):
        return lambda actions: actions
    low, high = np.array(space.low, np.float32), np.array(space.high, np.float32)
    half_width, middle = (high - low) / 2, (high + low) / 2
    return lambda actions: middle + half_width * actions
