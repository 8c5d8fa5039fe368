"""An episode on its way into a replay file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.changes import difference
from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.tables import ITEMS
from palaestra.runs.replays import ReplayWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    from palaestra.apps.arena.batch import ArenaBatch, Arrays
    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.apps.arena.state import WorldState
    from palaestra.envs.vector.batch import WorldEnding

KIND = "arena"


class ReplayRecorder:
    """`with ReplayRecorder(path, settings, seed, about) as recorder:` then `add` the first state and each next one.

    `about` says where it comes from: run, checkpoint, epoch, whatever the caller knows.
    """

    def __init__(self, path: Path, settings: ArenaSettings, seed: int, about: dict[str, Any] | None = None) -> None:
        self.path = path
        self._header = {"seed": seed, "about": about or {}, "settings": settings.model_dump(mode="json")}
        self._writer: ReplayWriter | None = None
        self._last: WorldState | None = None
        self._returns = np.zeros(settings.agents, np.float64)

    def __enter__(self) -> ReplayRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()

    def finish(self) -> None:
        """Write the file, as the end of the `with` does when nothing went wrong; once."""
        if self._writer is None or self._last is None:
            return  # nothing was added
        items = dict(zip(ITEMS, self._last.inventories.sum(0).tolist(), strict=True))
        self._writer.finish({"steps": self._writer.step_count, "returns": self._returns.tolist(), "items": items})
        self._writer.close()
        self._writer = None

    def add(self, state: WorldState, rewards: np.ndarray | None = None) -> None:
        """The state after a step and what the step paid, float32 [agents]; the first state comes without."""
        if self._writer is None or self._last is None:
            self._writer = ReplayWriter(self.path, KIND, {**self._header, "start": start_of(state)})
        else:
            paid = np.zeros(len(state.agents), np.float32) if rewards is None else rewards
            self._writer.add(difference(self._last, state, paid))
            self._returns += paid
        self._last = state


def start_of(state: WorldState) -> dict[str, Any]:
    """The first state, whole: the map as rows of `#` and `.`, the tables as WorldState has them"""
    return {
        "step": state.step,
        "max_steps": state.max_steps,
        "map": ["".join("#" if wall else "." for wall in row) for row in state.walls.tolist()],
        "stations": state.stations.tolist(),
        "agents": state.agents.tolist(),
        "inventories": state.inventories.tolist(),
    }


def record_batch(
    worlds: ArenaBatch, kwargs: dict[str, Any], path_of: Callable[[int], Path], about: dict[str, Any]
) -> RecordedBatch:
    """Wraps a batch of one world so that it writes replays; see `palaestra.apps.arena.app`."""
    return RecordedBatch(worlds, read_settings(kwargs), path_of, about)


class RecordedBatch:
    """Plays exactly as the batch that it is given. An episode that does not reach its end leaves no file."""

    def __init__(
        self, worlds: ArenaBatch, settings: ArenaSettings, path_of: Callable[[int], Path], about: dict[str, Any]
    ) -> None:
        assert worlds.world_count == 1, "an evaluated episode has a world of its own"
        self._worlds = worlds
        self._settings = settings
        self._path_of = path_of
        self._about = about
        self._recorder: ReplayRecorder | None = None
        self.world_count = 1
        self.agents = worlds.agents
        self.interface = worlds.interface
        self.metadata = worlds.metadata

    def reset(self, worlds: Sequence[int], seeds: Sequence[int], tasks: Sequence[int], out: Arrays) -> None:
        self._worlds.reset(worlds, seeds, tasks, out)
        self._recorder = ReplayRecorder(self._path_of(seeds[0]), self._settings, seeds[0], self._about)
        self._recorder.add(self._worlds.world_state(0))

    def step(self, actions: np.ndarray, out: Arrays, rewards: NDArray[np.float32]) -> list[WorldEnding]:
        endings = self._worlds.step(actions, out, rewards)
        if self._recorder is not None:
            self._recorder.add(self._worlds.world_state(0), rewards)
            if endings:
                self._recorder.finish()
                self._recorder = None
        return endings

    def state_message(self, world: int) -> tuple[bytes, float, int]:
        return self._worlds.state_message(world)

    def render(self, world: int) -> NDArray[np.uint8]:
        return self._worlds.render(world)

    def capture(self) -> dict[str, Any]:
        return self._worlds.capture()

    def restore(self, state: dict[str, Any]) -> None:
        """What came before is not known here, so the episode that goes on is not recorded."""
        self._worlds.restore(state)
        self._recorder = None

    def close(self) -> None:
        self._worlds.close()
