"""Episodes that end while a tape is being filled, as the native engine needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.core.episodes import EpisodeResult
    from palaestra.envs.vector import Ending


class Landings:
    """Notes on the tape where episodes ended; one for each time that it is filled."""

    def __init__(self, tape: RolloutBuffer) -> None:
        self._tape = tape
        self.episodes: list[EpisodeResult] = []
        self.cuts: list[tuple[int, Ending]] = []  # step and end of those that were cut: they bootstrap
        tape.starts[1:] = False
        tape.terminated[:] = False

    def note(self, step: int, endings: Sequence[Ending]) -> None:
        for ending in endings:
            self._tape.terminated[step, ending.env_index] = ending.episode.terminated
            self._tape.starts[step + 1, ending.env_index] = True
            self.episodes.append(ending.episode)
            if not ending.episode.terminated:
                self.cuts.append((step, ending))
