"""A batch of one world that writes every episode it plays into a replay file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.apps.arena.recording import ReplayRecorder
from palaestra.apps.arena.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from palaestra.apps.arena.batch import ArenaBatch
    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.apps.arena.world_batch import Arrays
    from palaestra.envs.vector.batch import WorldEnding


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
