"""Many worlds in one call, by the fast core where it was built, and as the trainer takes them."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from palaestra.apps.arena.draw import draw_world
from palaestra.apps.arena.message import encode_whole
from palaestra.apps.arena.reference_batch import MUST_AGREE, ReferenceBatch
from palaestra.apps.arena.spaces import interface_of_agent
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

    compiled, why_not_compiled = NativeBatch, ""
except ImportError as error:  # built without a C++ compiler
    compiled, why_not_compiled = None, str(error)


logger = logging.getLogger(__name__)

Arrays = np.ndarray | dict[str, np.ndarray]  # [B, …] with B = worlds x agents; world w has rows from w * agents on
FRAMES_PER_SECOND = 8
METADATA: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": FRAMES_PER_SECOND}


def make_batch(tasks: Sequence[ArenaSettings], world_count: int, threads: int = 1) -> WorldBatch:
    """Both implementations play the same worlds, to the last bit; they differ in speed."""
    if compiled is not None:
        return compiled(tasks, world_count, threads)
    _warn_about_speed()
    return ReferenceBatch(tasks, world_count, threads)


@cache
def _warn_about_speed() -> None:
    logger.warning(
        "Arena's fast core was not built here (%s); the slow reference in Python plays instead.", why_not_compiled
    )


class ArenaBatch:
    """See `palaestra.envs.vector.batch.NativeBatch`."""

    def __init__(self, tasks: Sequence[ArenaSettings], world_count: int, threads: int = 1) -> None:
        _refuse_disagreement(tasks)
        self.worlds = make_batch(tasks, world_count, threads)
        self.world_count = world_count
        self.agents = tasks[0].agents
        self.interface = interface_of_agent(tasks[0])
        self.metadata = METADATA
        self._episodes = [0] * world_count  # begun in each world

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
        """See `palaestra.envs.scene.HasStateMessage`. Whole messages: a viewer may have missed the ones before."""
        state = self.worlds.world_state(world)
        return encode_whole(state, self._episodes[world]), float(self.worlds.returns(world).mean()), state.step

    def render(self, world: int) -> NDArray[np.uint8]:
        return draw_world(self.worlds.world_state(world))

    def capture(self) -> dict[str, Any]:
        return self.worlds.capture()

    def restore(self, state: dict[str, Any]) -> None:
        self.worlds.restore(state)

    def close(self) -> None:
        """Nothing is held beyond memory."""


def _refuse_disagreement(tasks: Sequence[ArenaSettings]) -> None:
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
        """Begin a new episode in each of `worlds`, and write what its agents see into their rows of `out`."""

    def step(self, actions: np.ndarray, out: Arrays, rewards: np.ndarray) -> list[int]:
        """Actions int64 [B]; writes observations and rewards float32 [B]; gives the worlds whose episode was cut.

        A cut world shows its last observation and must be reset before the next step. An action out of range is a
        ValueError that names row and action; a world that was never reset, or is over, is one that names the world.
        Nothing has moved then.
        """

    def step_api(self) -> Any:
        """For engines that step these worlds themselves (native/batch_step_api.h); None if there is none."""

    def counters(self, world: int) -> np.ndarray:
        """int64 [agents, COUNTERS] of the episode so far"""

    def returns(self, world: int) -> np.ndarray:
        """float64 [agents]: rewards of the episode so far, after sharing, as added up from what `step` wrote"""

    def world_state(self, world: int) -> WorldState: ...

    def capture(self) -> dict[str, Any]:
        """Everything that decides how the worlds go on, as numbers, bytes, numpy arrays, lists and dictionaries."""

    def restore(self, state: dict[str, Any]) -> None: ...
