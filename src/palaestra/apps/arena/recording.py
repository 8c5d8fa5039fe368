"""An episode on its way into a replay file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.changes import difference
from palaestra.apps.arena.tables import ITEMS
from palaestra.runs.replays import ReplayWriter

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.apps.arena.state import WorldState

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
