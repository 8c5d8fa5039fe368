"""What DQN, SAC and TD3 have in common when the compiled engine computes them (native/engine/off_policy_learner.hpp).

The engine works in the memory of the optimizers, the targets and the replay buffer, and owns no state. Environments
that it can step itself are stepped inside: one call makes a whole iteration. Others are stepped by Python, which calls
the engine for actions and for the updates that are due.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms import serialization
from palaestra.algorithms.base import NATIVE_ENGINE, Iteration, Progress
from palaestra.algorithms.off_policy import FigureMeans, OffPolicy
from palaestra.algorithms.schedules import value_at
from palaestra.core.episodes import EpisodeColumns
from palaestra.core.errors import NonFinite, RunFailed
from palaestra.core.lazy_import import lazy_import
from palaestra.core.reports import PhaseTimes, UpdateFigures
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.training.engines.native_envs import ClassicControlEnvs, unwrap_published
from palaestra.training.engines.network_plan import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    import torch
    from numpy.typing import NDArray

    from palaestra.algorithms.base import Algorithm
    from palaestra.config.schedule import Schedule
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import Arrays, VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.training.engines.numpy_network import NumpyNetwork
else:
    torch = lazy_import("torch")


class NativeOffPolicy(OffPolicy):
    """Part of an algorithm: `attach` follows its own `__init__`."""

    engine = NATIVE_ENGINE
    network: NumpyNetwork | None  # the policy, where it is known without torch
    learning_rate_schedule: Schedule
    with_torch: Callable[[str], Algorithm]  # the same algorithm in torch; the argument says why

    def attach(self, compiled: ModuleType, learner: Any) -> None:
        """`learner`: an `OffPolicyLearner` on the arrays of this algorithm."""
        self.learner = learner
        self._finals = self.buffer.finals[""]
        self._inside, where = choose_stepping(self.envs, compiled)
        self.description = f"native, {learner.kernels}; environments stepped {where}"

    @property
    def agent(self) -> Agent:
        raise NotImplementedError

    @property
    def interface(self) -> EnvInterface:
        return self.agent.interface if self.network is None else self.envs.interface

    def policy(self) -> Agent:
        return self.agent

    def weights(self) -> Agent | Mapping[str, NDArray[np.float32]]:
        if self.network is not None and not serialization.has_torch():
            return self.network.weights()
        return self.agent

    # ---- environments

    def export_env_state(self) -> None:
        if self._inside is not None:
            self._inside.export_state()

    def reset_envs(self, seeds: Sequence[int]) -> None:
        super().reset_envs(seeds)
        self._env_state_changed()

    def restore(self, saved: Mapping[str, Any]) -> None:
        super().restore(saved)
        self._env_state_changed()

    def _env_state_changed(self) -> None:
        if self._inside is not None:
            self._inside.invalidate()

    # ---- iterations

    def before_first_update(self) -> None:
        """Weights may have been loaded since the targets were made."""

    def rates(self, now: Progress) -> tuple[float, float]:
        """Of an update: the learning rate, and a second one that the algorithm has."""
        return value_at(self.learning_rate_schedule, now.fraction), 0.0

    def second_rates(self, fractions: NDArray[np.float64], learning_rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """The second rate after each step."""
        del fractions
        return np.zeros_like(learning_rates)

    def exploration_rates(self, fractions: NDArray[np.float64]) -> NDArray[np.float64]:
        """DQN: the share of random actions before each step."""
        return np.zeros_like(fractions)

    def targets_due(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.int32]:
        """Updates of the target that follow each step, if they are counted by steps."""
        del before
        return np.zeros(len(after), np.int32)

    def iterate(self, progress: Progress) -> Iteration:
        if self.update_count == 0:
            self.before_first_update()
        self.learner.pack()
        return super().iterate(progress) if self._inside is None else self._iterate_inside(self._inside, progress)

    def _iterate_inside(self, envs: ClassicControlEnvs, progress: Progress) -> Iteration:
        began = perf_counter()
        self.figures = FigureMeans()
        row_count = self.settings.steps_per_iteration // self.envs.count
        schedule = self._schedule(progress, row_count)
        envs.import_state()
        self.buffer.reserve_finals(self.envs.count * (row_count // envs.time_limit + 1))
        self._load_position(inside=True)
        made, columns = self._run(envs, progress, schedule)
        learning = float(self.learner.learning_seconds)
        episodes = EpisodeColumns(**columns)
        self._finish(made, schedule, row_count)
        newest = (self.buffer.position - 1) % self.buffer.rows
        envs.publish(self.envs, row_count, len(episodes), self.buffer.rewards[newest])
        self.take_in(row_count)
        now = progress.after(row_count * self.envs.count * self.group.world_size)
        return Iteration(
            self.settings.steps_per_iteration,
            UpdateFigures(self.figures.means()),
            episodes,
            PhaseTimes(perf_counter() - began - learning, learning),
            {"replay/transitions": float(self.buffer.transitions), **self.exploration_metrics(now)},
        )

    def _run(
        self, envs: ClassicControlEnvs, progress: Progress, schedule: dict[str, NDArray[Any]]
    ) -> tuple[int, dict[str, Any]]:
        made, columns = self.learner.run(
            envs=envs.native,
            first_step=self.row_index(progress),
            first_update=self.update_count,
            **schedule,
            reducer=self.group.reducer,
        )
        position, _size, total_rows, free_slots = self.learner.position()
        self.buffer.advance(total_rows - self.buffer.total_rows, free_slots)
        assert position == self.buffer.position, "both count rows alike"
        return made, columns

    def _finish(self, made: int, schedule: dict[str, NDArray[Any]], row_count: int) -> None:
        """After all updates of an iteration, or the one whose gradient is not finite."""
        due = schedule["updates_due"]
        self.update_count += made
        self.buffer.refuse_non_finite(row_count)
        if made < due.sum():
            raise NonFinite(f"The gradient's norm is {self.learner.last_norm}.")
        self._add_figures(float(due @ schedule["learning_rates"]), made)

    def _schedule(self, progress: Progress, row_count: int) -> dict[str, NDArray[Any]]:
        """Of every step of all environments, [rows] each: what `iterate` of the base class computes step by step."""
        settings, at_once = self.settings, self.envs.count * self.group.world_size
        after = progress.env_steps + at_once * np.arange(1, row_count + 1, dtype=np.int64)
        before = after - at_once
        first = np.maximum(before, settings.learning_starts + self.steps_not_in_buffer(progress))
        due = np.maximum(after // settings.train_interval - first // settings.train_interval, 0)
        fractions = after / progress.total_steps
        learning_rates = values_at(self.learning_rate_schedule, fractions)
        return {
            "is_random": (before < settings.learning_starts) & self.starts_randomly,
            "exploration": self.exploration_rates(before / progress.total_steps),
            "updates_due": (due * settings.gradient_steps).astype(np.int32),
            "targets_due": self.targets_due(before, after),
            "learning_rates": learning_rates,
            "second_rates": self.second_rates(fractions, learning_rates),
        }

    # ---- steps that Python makes

    def act(self, now: Progress, exploration: float = 0.0) -> NDArray[Any]:
        """[B, …] actions for the buffer's current row."""
        self._load_position(inside=False)
        try:
            self.learner.act(self.row_index(now), is_random=False, exploration=exploration)
        except IndexError as error:  # the engine checks observations when it reads them
            raise RunFailed(
                f"An environment of '{self.config.env}' left its own observation space: {error}."
            ) from error
        actions: NDArray[Any] = self.buffer.actions[self.buffer.position]
        return actions

    def explore(self, observations: Arrays, now: Progress) -> NDArray[Any]:
        del observations  # the buffer's current row
        return self.act(now)

    def learn(self, count: int, now: Progress) -> None:
        self._load_position(inside=False)
        learning_rate, second_rate = self.rates(now)
        made = self.learner.learn(count, self.update_count, learning_rate, second_rate, self.group.reducer)
        self.update_count += made
        if made < count:
            raise NonFinite(f"The gradient's norm is {self.learner.last_norm}.")
        self._add_figures(learning_rate * made, made)

    def _add_figures(self, learning_rate_sum: float, made: int) -> None:
        for name, total, count in self.learner.take_figures():
            if count:
                self.figures.add({name: total}, count)
        if made:
            self.figures.add({"charts/learning_rate": learning_rate_sum}, made)

    def _load_position(self, *, inside: bool) -> None:
        """Where the buffer stands; the engine adds rows by itself only inside."""
        buffer = self.buffer
        free_slots = buffer.free_slots if inside else []
        finals = buffer.finals[""]
        moved = None if finals is self._finals else finals  # the buffer replaces the array when it needs a larger one
        self._finals = finals
        self.learner.set_position((buffer.position, buffer.size, buffer.total_rows, free_slots), moved)

    def take_in(self, row_count: int) -> None:
        if self.config.policy.normalize_observations:
            self.agent.take_in(torch.from_numpy(self.buffer.newest(row_count)), self.group.stack)


def choose_stepping(envs: VectorEnvs, compiled: ModuleType) -> tuple[ClassicControlEnvs | None, str]:
    """The environments if the engine can step them itself, and where they are stepped in words."""
    own = unwrap_published(envs)
    if not isinstance(own, InProcessEnvs):
        return None, "outside, in a batch or in worker processes"
    try:
        return ClassicControlEnvs(own, compiled), "inside"
    except Unsupported as reason:
        return None, f"in Python: {reason}"


def values_at(schedule: Schedule, fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """`value_at` of each fraction."""
    if schedule.kind == "constant":
        return np.full(len(fractions), schedule.start)
    return np.array([value_at(schedule, float(fraction)) for fraction in fractions])


def optimizer_capture(memory: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """What `FlatOptimizer.capture` gives, copied from Adam's memory while torch is not imported."""
    names = {"exp_avg": "mean", "exp_avg_sq": "spread", "step_count": "step_count"}
    return {name: memory[own].copy() for name, own in names.items()}


def compiled_or_refuse(compiled: ModuleType | None) -> ModuleType:
    if compiled is None:
        raise Unsupported("it was not compiled where palaestra was installed")
    return compiled
