"""Writes and reads replay files of Arena."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.ansi import world_text
from palaestra.apps.arena.draw import draw_world
from palaestra.apps.arena.encoding import apply_change, difference, rewards_of
from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.state import WorldState, check_shapes, check_size, validate_state
from palaestra.apps.arena.tables import ITEMS
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.runs.replays import ReplayWriter, parse_object, read_replay_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    from palaestra.apps.arena.batch import ArenaBatch, Arrays
    from palaestra.apps.arena.draw import Image
    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.envs.vector.batch import WorldEnding


KIND = "arena"


class ReplayRecorder:
    """`with ReplayRecorder(path, settings, seed, about) as recorder:` then `add` the first state and each next one.

    `about` describes the origin: run, checkpoint, epoch.
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
        """Writes the file; called by the end of a `with` block without error. Later calls do nothing."""
        if self._writer is None or self._last is None:
            return  # nothing was added
        items = dict(zip(ITEMS, self._last.inventories.sum(0).tolist(), strict=True))
        self._writer.finish({"steps": self._writer.step_count, "returns": self._returns.tolist(), "items": items})
        self._writer.close()
        self._writer = None

    def add(self, state: WorldState, rewards: np.ndarray | None = None) -> None:
        """Adds the state after a step, and the step's rewards, float32 [agents]; the first state has none."""
        if self._writer is None or self._last is None:
            self._writer = ReplayWriter(self.path, KIND, {**self._header, "start": start_of(state)})
        else:
            paid = np.zeros(len(state.agents), np.float32) if rewards is None else rewards
            self._writer.add(difference(self._last, state, paid))
            self._returns += paid
        self._last = state


def start_of(state: WorldState) -> dict[str, Any]:
    """The full first state: the map as rows of `#` and `.`, and the tables of WorldState."""
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
    """A batch of one world that records its episodes. An episode that does not end leaves no file."""

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
        """The current episode is not recorded, because its beginning is unknown."""
        self._worlds.restore(state)
        self._recorder = None

    def close(self) -> None:
        self._worlds.close()


KEYFRAME_INTERVAL = 64  # steps; at most this many changes are applied to reach a state


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
            raise DamagedFile(f"{path} contains {self.length} steps, but its end names {file.end.get('steps')!r}.")
        start = _read_start(file.header.get("start"), f"{path}, its first line")
        self._keyframes = {0: start}
        self._last = (0, start)

    def state_at(self, step: int) -> WorldState:
        """The state after `step` steps of the replay; 0: the first state."""
        if not 0 <= step <= self.length:
            raise UsageError(f"{self._path.name} has steps 0 to {self.length}, not {step}.")
        known = max(key for key in (*self._keyframes, self._last[0]) if key <= step)
        state = self._last[1] if known == self._last[0] else self._keyframes[known]
        for number in range(known + 1, step + 1):
            state = apply_change(state, self._change(number), self._name(number))
            if number % KEYFRAME_INTERVAL == 0:
                self._keyframes[number] = state
        self._last = (step, state)
        return state

    def rewards_at(self, step: int) -> np.ndarray:
        """Rewards of the step that led to the state at `step`, float32 [agents]; zeros at 0."""
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
        return world_text(state, color=color, own=own, own_label="followed", columns=columns, lines=lines)

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
    """Entries with simple names and values only: the file may be from elsewhere and is printed to a terminal."""
    pairs = about.items() if isinstance(about, dict) else ()
    return {name: value for name, value in pairs if name.isidentifier() and isinstance(value, str | int | float)}


def _read_start(data: Any, source: str) -> WorldState:
    try:
        rows = [str(row) for row in data["map"]]
        check_size(len(rows), max(map(len, rows), default=0), len(data["agents"]), len(data["stations"]), source)
        if len({len(row) for row in rows}) != 1:
            raise DamagedFile(f"{source}: the rows of the map differ in length.")
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
    return validate_state(state, source)


def _table(data: Any, name: str, columns: int) -> np.ndarray:
    rows = data[name]
    return np.array(rows, np.int32) if rows else np.empty((0, columns), np.int32)
