"""Steps many worlds in one call, with the compiled core where it was built, behind the trainer's batch interface."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from palaestra.apps.arena.draw import draw_world
from palaestra.apps.arena.encoding import encode_full
from palaestra.apps.arena.observe import interface_of_agent
from palaestra.apps.arena.reference_batch import MUST_AGREE, ReferenceBatch
from palaestra.apps.arena.tables import COUNTERS
from palaestra.core.errors import UsageError
from palaestra.envs.vector.batch import WorldEnding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.apps.arena.state import WorldState

compiled: Callable[[Sequence[ArenaSettings], int, int], WorldBatch] | None
try:
    from palaestra.apps.arena.native_batch import NativeBatch

    compiled, compile_error = NativeBatch, ""
except ImportError as error:  # built without a C++ compiler
    compiled, compile_error = None, str(error)


logger = logging.getLogger(__name__)

Arrays = np.ndarray | dict[str, np.ndarray]  # [B, …] with B = worlds x agents; world w has rows from w * agents on
FRAMES_PER_SECOND = 8
METADATA: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": FRAMES_PER_SECOND}


def make_batch(tasks: Sequence[ArenaSettings], world_count: int, threads: int = 1) -> WorldBatch:
    """The compiled batch, or the reference in Python where it was not built. Both give bit for bit the same results."""
    if compiled is not None:
        return compiled(tasks, world_count, threads)
    _warn_about_speed()
    return ReferenceBatch(tasks, world_count, threads)


@cache
def _warn_about_speed() -> None:
    logger.warning("Arena's compiled core was not built (%s); the slow reference in Python is used.", compile_error)


class ArenaBatch:
    """See `palaestra.envs.vector.batch.NativeBatch`."""

    def __init__(self, tasks: Sequence[ArenaSettings], world_count: int, threads: int = 1) -> None:
        _check_tasks_agree(tasks)
        self.worlds = make_batch(tasks, world_count, threads)
        self.world_count = world_count
        self.agents = tasks[0].agents
        self.interface = interface_of_agent(tasks[0])
        self.metadata = METADATA
        self._episodes = [0] * world_count  # episodes started in each world

    def reset(self, worlds: Sequence[int], seeds: Sequence[int], tasks: Sequence[int], out: Arrays) -> None:
        self.worlds.reset(worlds, seeds, tasks, out)
        for world in worlds:
            self._episodes[world] += 1

    def step(self, actions: np.ndarray, out: Arrays, rewards: NDArray[np.float32]) -> list[WorldEnding]:
        return [self.ending(world) for world in self.worlds.step(actions, out, rewards)]

    def step_api(self) -> Any:
        """See `palaestra.envs.vector.batch.OffersStepApi`."""
        return self.worlds.step_api()

    def ending(self, world: int) -> WorldEnding:
        return WorldEnding(
            world,
            terminated=False,
            length=self.worlds.world_state(world).step,
            returns=self.worlds.returns(world),
            extras=dict(zip(COUNTERS, self.worlds.counters(world).T, strict=True)),
        )

    def world_state(self, world: int) -> WorldState:
        return self.worlds.world_state(world)

    def state_message(self, world: int) -> tuple[bytes, float, int]:
        """A full state message, since a viewer may have missed earlier ones."""
        state = self.worlds.world_state(world)
        return encode_full(state, self._episodes[world]), float(self.worlds.returns(world).mean()), state.step

    def render(self, world: int) -> NDArray[np.uint8]:
        return draw_world(self.worlds.world_state(world))

    def capture(self) -> dict[str, Any]:
        return self.worlds.capture()

    def restore(self, state: dict[str, Any]) -> None:
        self.worlds.restore(state)

    def close(self) -> None:
        """Nothing to close."""


def _check_tasks_agree(tasks: Sequence[ArenaSettings]) -> None:
    for name in MUST_AGREE:
        values = sorted({getattr(task, name) for task in tasks})
        if len(values) > 1:
            raise UsageError(
                f"The tasks differ in {name}: {' and '.join(map(str, values))}.",
                f"All tasks of a curriculum must have the same {', '.join(MUST_AGREE[:-1])} and {MUST_AGREE[-1]}.",
            )


class WorldBatch(Protocol):
    """Worlds w = 0 … world_count - 1 of `agents` each. Every array is C-contiguous and belongs to the caller.

    Made with `(tasks: Sequence[ArenaSettings], world_count: int, threads: int = 1)`; tasks agree in agents, view,
    observation and tokens, and may differ in everything else. A world is reset before it is stepped.
    """

    world_count: int
    agents: int

    def reset(self, worlds: Sequence[int], seeds: Sequence[int], tasks: Sequence[int], out: Arrays) -> None:
        """Starts a new episode in each of `worlds`; writes the agents' observations into their rows of `out`."""

    def step(self, actions: np.ndarray, out: Arrays, rewards: np.ndarray) -> list[int]:
        """Takes actions int64 [B]; writes observations and rewards float32 [B]; returns the truncated worlds.

        A truncated world has its last observation in `out` and must be reset before the next step. ValueError, before
        any world is stepped: an action out of range (names row and action), or a world that must be reset first.
        """

    def step_api(self) -> Any:
        """The step API for compiled engines (native/batch_step_api.h); None for the reference."""

    def counters(self, world: int) -> np.ndarray:
        """int64 [agents, COUNTERS] of the episode so far"""

    def returns(self, world: int) -> np.ndarray:
        """float64 [agents]: sums of the episode's rewards, after sharing"""

    def world_state(self, world: int) -> WorldState: ...

    def capture(self) -> dict[str, Any]:
        """The complete state of all worlds, as numbers, bytes, NumPy arrays, lists and dictionaries."""

    def restore(self, state: dict[str, Any]) -> None: ...
