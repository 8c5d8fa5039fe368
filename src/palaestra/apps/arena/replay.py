"""A recorded episode, opened: any of its states at once, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.ansi import world_text
from palaestra.apps.arena.changes import follow, rewards_of
from palaestra.apps.arena.draw import draw_world
from palaestra.apps.arena.limits import check_shapes, check_size, refuse_impossible
from palaestra.apps.arena.recording import KIND
from palaestra.apps.arena.state import WorldState
from palaestra.apps.arena.tables import ITEMS
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.runs.replays import parse_object, read_replay_file

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.apps.arena.draw import Image

KEYFRAME_INTERVAL = 64  # steps; so many at most are followed to reach any state


def open_replay(path: Path) -> ArenaReplay:
    """Opens a replay file; see `palaestra.apps.arena.app`."""
    return ArenaReplay(path)


class ArenaReplay:
    def __init__(self, path: Path) -> None:
        self._path = path
        file = read_replay_file(path)
        if file.header.get("kind") != KIND:
            raise DamagedFile(f"{path} is a replay of {file.header.get('kind')!r}, not of '{KIND}'.")
        self.header = file.header
        self.length = len(file.steps)
        self._steps = file.steps
        self._end = file.end
        if file.end.get("steps") != self.length:
            raise DamagedFile(f"{path} holds {self.length} steps and says that it has {file.end.get('steps')!r}.")
        start = _read_start(file.header.get("start"), f"{path}, its first line")
        self._keyframes = {0: start}
        self._last = (0, start)

    def state_at(self, step: int) -> WorldState:
        """The state after so many steps of the replay; 0 is how the episode began."""
        if not 0 <= step <= self.length:
            raise UsageError(f"{self._path.name} has steps 0 to {self.length}, not {step}.")
        known = max(key for key in (*self._keyframes, self._last[0]) if key <= step)
        state = self._last[1] if known == self._last[0] else self._keyframes[known]
        for number in range(known + 1, step + 1):
            state = follow(state, self._change(number), self._name(number))
            if number % KEYFRAME_INTERVAL == 0:
                self._keyframes[number] = state
        self._last = (step, state)
        return state

    def rewards_at(self, step: int) -> np.ndarray:
        """float32 [agents] that led to the state at `step`; nothing has been paid at 0"""
        count = len(self._keyframes[0].agents)
        return np.zeros(count, np.float32) if step == 0 else rewards_of(self._change(step), count, self._name(step))

    def summary(self) -> dict[str, Any]:
        last = self.state_at(self.length)
        returns = [float(value) for value in self._end.get("returns", []) if isinstance(value, int | float)]
        return {
            **_printable(self.header.get("about")),
            "kind": KIND,
            "seed": self.header.get("seed"),
            "steps": self.length,
            "agents": len(last.agents),
            "map": f"{last.width}x{last.height}",
            "return_per_agent": sum(returns) / len(returns) if returns else 0.0,
            **{f"{name}_held": int(count) for name, count in zip(ITEMS, last.inventories.sum(0), strict=True)},
        }

    def text_at(
        self, step: int, *, color: bool, columns: int | None = None, lines: int | None = None, follow: int | None = None
    ) -> str:
        state = self.state_at(step)
        own = None if follow is None else follow % max(len(state.agents), 1)
        return world_text(state, color=color, own=own, called="followed", columns=columns, lines=lines)

    def status_at(self, step: int) -> str:
        state = self.state_at(step)
        held = "  ".join(
            f"{name} {int(count)}" for name, count in zip(ITEMS, state.inventories.sum(0), strict=True) if count
        )
        paid = float(self.rewards_at(step).sum())
        return "  ".join(part for part in (f"reward {paid:+g}" if paid else "", f"held: {held or 'nothing'}") if part)

    def image_at(self, step: int, size: int | None = None) -> Image:
        return draw_world(self.state_at(step), size)

    def _change(self, number: int) -> dict[str, Any]:
        return parse_object(self._steps[number - 1], self._name(number))

    def _name(self, number: int) -> str:
        return f"{self._path}, step {number}"


def _printable(about: Any) -> dict[str, Any]:
    """Plain names and plain values: what a stranger's file says goes to a terminal."""
    pairs = about.items() if isinstance(about, dict) else ()
    return {name: value for name, value in pairs if name.isidentifier() and isinstance(value, str | int | float)}


def _read_start(data: Any, source: str) -> WorldState:
    try:
        rows = [str(row) for row in data["map"]]
        check_size(len(rows), max(map(len, rows), default=0), len(data["agents"]), len(data["stations"]), source)
        if len({len(row) for row in rows}) != 1:
            raise DamagedFile(f"{source}: the rows of the map are not equally long.")
        state = WorldState(
            step=int(data["step"]),
            max_steps=int(data["max_steps"]),
            walls=np.array([[letter == "#" for letter in row] for row in rows], np.uint8),
            stations=_table(data, "stations", 5),
            agents=_table(data, "agents", 6),
            inventories=_table(data, "inventories", len(ITEMS)),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedFile(f"{source}: its first state cannot be read ({error}).") from error
    check_shapes(state.stations, state.agents, state.inventories, source)
    return refuse_impossible(state, source)


def _table(data: Any, name: str, columns: int) -> np.ndarray:
    rows = data[name]
    return np.array(rows, np.int32) if rows else np.empty((0, columns), np.int32)
