"""What the two implementations have in common: many worlds, stepped in one call, row by row of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.arena.state import WorldState

Arrays = np.ndarray | dict[str, np.ndarray]  # [B, …] with B = worlds x agents; world w has rows from w * agents on


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
