"""Environments that step all their copies in one call, and many players of each.

A *world* is one copy; it has one player or several. A *row* is one player: world w of `agents` players has the rows
from `w * agents` on. What a world ends with and how the next episode begins is decided here, as `InProcessEnvs` does
for environments that are stepped one by one.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import PalaestraError, RunFailed
from palaestra.core.tracebacks import describe_error, with_user_traceback
from palaestra.envs.tasks import TASK
from palaestra.envs.vector.in_process import Ending, VectorStep, action_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.tasks import TaskSource
    from palaestra.envs.vector.in_process import Arrays


@dataclass(frozen=True)
class WorldEnding:
    """The episode of a world that ended in this step, for all its players at once."""

    world: int
    terminated: bool  # False: cut by a time limit
    length: int
    returns: NDArray[np.float64]  # [agents]
    extras: Mapping[str, NDArray[Any]]  # further figures by name, each [agents]


class NativeBatch(Protocol):
    """`world_count` worlds of `agents` players each. Arrays belong to the caller and are C-contiguous, rows first."""

    world_count: int
    agents: int
    interface: EnvInterface  # of one player
    metadata: dict[str, Any]  # as the environment's class has it: render_fps and the like

    def reset(self, worlds: Sequence[int], seeds: Sequence[int], tasks: Sequence[int], out: Arrays) -> None:
        """Begin an episode in each of `worlds`, and write what its players see into their rows of `out`.

        A seed (64 bits, not negative) decides the whole episode; a task is an index into what the batch was made with.
        """

    def step(self, actions: np.ndarray, out: Arrays, rewards: NDArray[np.float32]) -> Sequence[WorldEnding]:
        """Actions [rows, …]; writes observations and rewards [rows]; says which worlds ended, in rising order.

        A world that ended shows its last observation. It is reset before the next step.
        """

    def render(self, world: int) -> Any:
        """An image [height, width, 3] of uint8; None if the batch does not render."""

    def capture(self) -> dict[str, Any] | None:
        """A copy of the complete state as numbers, text, bytes, arrays, lists and dictionaries; None if it cannot be
        captured."""

    def restore(self, state: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class OffersBatch(Protocol):
    """An environment class, registered with Gymnasium, that offers a native batch, which is then used."""

    @classmethod
    def native_batch(
        cls, world_count: int, tasks: Sequence[Mapping[str, Any]], max_episode_steps: int | None
    ) -> NativeBatch:
        """Each task is a set of keyword arguments of the class; all must have the same spaces and players.

        `max_episode_steps` is the time limit to keep, None: the class's own.
        """


@runtime_checkable
class OffersStepApi(Protocol):
    """A native batch whose worlds a compiled engine can step itself, until an episode ends."""

    def step_api(self) -> Any:
        """A PyCapsule as native/batch_step_api.h describes it, valid as long as it lives; None if there is none."""

    def ending(self, world: int) -> WorldEnding:
        """The episode that the last step ended in `world`, before the world is reset"""


def step_api_of(batch: NativeBatch) -> Any:
    """The batch's step API, or None. The method's former name is read too."""
    if isinstance(batch, OffersStepApi):
        return batch.step_api()
    engine_door = getattr(batch, "engine_door", None)
    return None if engine_door is None else engine_door()


class BatchEnvs:
    """A `palaestra.envs.vector.in_process.VectorEnvs` of a native batch, with no Python code per player."""

    def __init__(self, batch: NativeBatch, tasks: TaskSource | None = None, task_names: Sequence[str] = ()) -> None:
        self.batch = batch
        self.count = batch.world_count * batch.agents
        self.interface = batch.interface
        self._to_env_actions = action_rows(self.interface.action_space)
        self._rewards = np.zeros(self.count, np.float32)
        self._tasks = tasks
        self._task_names = list(task_names)
        self._seeds = [0] * batch.world_count  # of the episode under way
        self._streams = [SeedStream(0) for _ in range(batch.world_count)]

    def reset(self, seeds: Sequence[int], out: Arrays) -> None:
        """One seed per row; a world uses that of its first row, from which all its later seeds are drawn."""
        self._seeds = [int(seed) for seed in seeds[:: self.batch.agents]]
        self._streams = [SeedStream(seed) for seed in self._seeds]
        worlds = range(self.batch.world_count)
        with self._batch_errors_named():
            self.batch.reset(worlds, self._seeds, self._next_tasks(worlds), out)

    def step(self, actions: np.ndarray, out: Arrays) -> VectorStep:
        """Take `actions` [B, …]; the observations to act on next are written into `out` [B, …]."""
        with self._batch_errors_named():
            ended = self.batch.step(self._to_env_actions(actions), out, self._rewards)
            return VectorStep(self._rewards, self._land(ended, out) if ended else [])

    def land(self, worlds: Sequence[int], out: Arrays) -> list[Ending]:
        """Like `step`, for worlds whose episodes ended in a step that an engine took through the batch step API."""
        batch: Any = self.batch
        with self._batch_errors_named():
            return self._land([batch.ending(world) for world in worlds], out)

    def _land(self, ended: Sequence[WorldEnding], out: Arrays) -> list[Ending]:
        """`out` holds the last observations, and then the first ones of the next episodes."""
        endings = [ending for world in ended for ending in self._endings(world, out)]
        self._begin([world.world for world in ended], out)
        return endings

    @contextmanager
    def _batch_errors_named(self) -> Iterator[None]:
        """Turns errors of the batch's code into RunFailed."""
        try:
            yield
        except PalaestraError:
            raise
        except (Exception, SystemExit) as error:
            failure = RunFailed(f"The batch of {self.batch.world_count} worlds {describe_error(error)}.")
            raise with_user_traceback(failure, error) from error

    def _endings(self, ended: WorldEnding, out: Arrays) -> Iterator[Ending]:
        agents = self.batch.agents
        first = ended.world * agents
        if self._tasks is not None:
            self._tasks.ended(first, float(ended.returns.mean()))
        final = _copied_rows(out, first, first + agents)
        returns = ended.returns.tolist()
        names, columns = list(ended.extras), [values.tolist() for values in ended.extras.values()]
        figures = zip(*columns, strict=True) if columns else [()] * agents
        for agent, values in enumerate(figures):
            extras = {name: float(value) for name, value in zip(names, values, strict=True)}
            episode = EpisodeResult(
                None, returns[agent], ended.length, ended.terminated, env_index=first + agent, extras=extras
            )
            yield Ending(first + agent, _row(final, agent), episode)

    def _begin(self, worlds: Sequence[int], out: Arrays) -> None:
        for world in worlds:
            self._seeds[world] = self._streams[world].next()
        self.batch.reset(worlds, [self._seeds[world] for world in worlds], self._next_tasks(worlds), out)

    def _next_tasks(self, worlds: Sequence[int]) -> list[int]:
        if self._tasks is None:
            return [0] * len(worlds)
        drawn = [self._tasks.next_options(world * self.batch.agents)[TASK] for world in worlds]
        return [self._task_names.index(name) for name in drawn]

    def why_inexact(self) -> str:
        return "" if self.batch.capture() is not None else "The state of these worlds cannot be captured."

    def capture(self) -> dict[str, Any] | None:
        state = self.batch.capture()
        if state is None:
            return None
        return {
            "batch": state,
            "seeds": np.array(self._seeds, np.uint64),
            "streams": np.array([stream.state for stream in self._streams], np.uint64),
        }

    def restore(self, state: dict[str, Any]) -> None:
        if len(state["seeds"]) != self.batch.world_count:
            raise ValueError(f"it has {len(state['seeds'])} worlds, this run {self.batch.world_count}")
        self.batch.restore(state["batch"])
        self._seeds = [int(seed) for seed in state["seeds"]]
        self._streams = [SeedStream(int(seed)) for seed in state["streams"]]

    def close(self) -> None:
        self.batch.close()


def _copied_rows(arrays: Arrays, first: int, last: int) -> Arrays:
    """A copy, because the reset overwrites these rows."""
    if isinstance(arrays, dict):
        return {name: part[first:last].copy() for name, part in arrays.items()}
    rows: np.ndarray = arrays[first:last].copy()
    return rows


def _row(arrays: Arrays, index: int) -> Any:
    if isinstance(arrays, dict):
        return {name: part[index] for name, part in arrays.items()}
    return arrays[index]


MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


class SeedStream:
    """Seeds drawn one after the other with SplitMix64, which is the same in every language."""

    def __init__(self, seed: int) -> None:
        self.state = seed & MASK  # the complete state

    def next(self) -> int:
        """The next seed, 64 bits."""
        self.state = (self.state + GOLDEN) & MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)
