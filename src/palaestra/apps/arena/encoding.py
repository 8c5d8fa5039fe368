"""Encodings of a world's state: bytes for the browser, and JSON differences for replays.

docs/arena.md has both layouts. Numbers in messages are little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.state import WorldState, check_size, validate_state
from palaestra.apps.arena.tables import ACTIONS, ITEMS
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from palaestra.apps.arena.state import Integers


MAGIC = b"AR"
VERSION = 1
FULL, CHANGES = 0, 1

HEADER = struct.Struct("<2sBBII")  # magic, version, kind, episode, step
SIZES = struct.Struct("<IBBHHBx")  # max_steps, height, width, agents, stations, kinds of items
COUNTS = struct.Struct("<HH")  # agents and stations that changed
STATION = np.dtype([("place", "u1", 3), ("cooldown", "u1"), ("stock", "<i4")])  # place: y, x, kind
AGENT = np.dtype([("row", "u1", 5), ("action", "u1"), ("items", "u1", len(ITEMS))])  # y, x, facing, frozen, team
STATION_CHANGE = np.dtype([("index", "<u2"), ("cooldown", "u1"), ("stock", "<i4")])
AGENT_CHANGE = np.dtype([("index", "<u2"), ("now", AGENT)])
SOURCE = "A state message"


@dataclass(frozen=True)
class DecodedState:
    episode: int  # number of the episode; changes apply to states of the same episode only
    state: WorldState


def encode_full(state: WorldState, episode: int) -> bytes:
    sizes = SIZES.pack(state.max_steps, state.height, state.width, len(state.agents), len(state.stations), len(ITEMS))
    walls = np.packbits(state.walls.astype(bool)).tobytes()
    stations = np.empty(len(state.stations), STATION)
    stations["place"], stations["cooldown"] = state.stations[:, :3], state.stations[:, 3]
    stations["stock"] = state.stations[:, 4]
    header = HEADER.pack(MAGIC, VERSION, FULL, episode, state.step)
    agents = _agent_rows(state.agents, state.inventories)
    return b"".join([header, sizes, walls, stations.tobytes(), agents.tobytes()])


def encode_changes(before: WorldState, after: WorldState, episode: int) -> bytes:
    """Changes between two states of one episode, which need not be consecutive."""
    agent_indices = np.flatnonzero(
        (before.agents != after.agents).any(1) | (before.inventories != after.inventories).any(1)
    )
    station_indices = np.flatnonzero((before.stations != after.stations).any(1))
    agents = np.empty(len(agent_indices), AGENT_CHANGE)
    agents["index"], agents["now"] = (
        agent_indices,
        _agent_rows(after.agents[agent_indices], after.inventories[agent_indices]),
    )
    stations = np.empty(len(station_indices), STATION_CHANGE)
    stations["index"] = station_indices
    stations["cooldown"], stations["stock"] = after.stations[station_indices, 3], after.stations[station_indices, 4]
    header = HEADER.pack(MAGIC, VERSION, CHANGES, episode, after.step)
    return b"".join(
        [header, COUNTS.pack(len(agent_indices), len(station_indices)), agents.tobytes(), stations.tobytes()]
    )


def decode(data: bytes, before: DecodedState | None = None) -> DecodedState:
    """Decodes a message and checks everything in it. `before`: result of the message before, for changes."""
    if len(data) < HEADER.size:
        raise DamagedFile(f"{SOURCE} has {len(data)} bytes; its header alone has {HEADER.size}.")
    magic, version, kind, episode, step = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise DamagedFile(f"{SOURCE} begins with {magic!r}; {MAGIC!r} was expected.")
    if version != VERSION:
        raise DamagedFile(f"{SOURCE} has version {version}; this Palaestra reads {VERSION}.")
    rest = _ByteReader(data, HEADER.size)
    if kind == FULL:
        state = _read_full(rest, step)
    elif kind == CHANGES:
        state = _read_changes(rest, step, episode, before)
    else:
        raise DamagedFile(f"{SOURCE} is of kind {kind}; {FULL} (whole) or {CHANGES} (changes) was expected.")
    rest.expect_end()
    return DecodedState(episode, validate_state(state, SOURCE))


class _ByteReader:
    """Reads a message from front to back, never beyond its end."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def take(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._data):
            raise DamagedFile(f"{SOURCE} was cut short: {len(self._data)} bytes of at least {end}.")
        part = self._data[self._position : end]
        self._position = end
        return part

    def rows(self, kind: np.dtype[np.void], count: int) -> np.ndarray:
        return np.frombuffer(self.take(kind.itemsize * count), kind)

    def expect_end(self) -> None:
        if self._position != len(self._data):
            raise DamagedFile(f"{SOURCE} has {len(self._data)} bytes; {self._position} were expected.")


def _read_full(rest: _ByteReader, step: int) -> WorldState:
    max_steps, height, width, agent_count, station_count, item_count = SIZES.unpack(rest.take(SIZES.size))
    if item_count != len(ITEMS):
        raise DamagedFile(f"{SOURCE} knows {item_count} kinds of items; this Palaestra knows {len(ITEMS)}.")
    check_size(height, width, agent_count, station_count, SOURCE)
    bits = np.frombuffer(rest.take((height * width + 7) // 8), np.uint8)
    walls = np.unpackbits(bits, count=height * width).reshape(height, width)
    stations = rest.rows(STATION, station_count)
    agents, inventories = _tables(rest.rows(AGENT, agent_count))
    station_rows = np.column_stack([stations["place"], stations["cooldown"], stations["stock"]]).astype(np.int32)
    return WorldState(step, max_steps, walls, station_rows, agents, inventories)


def _read_changes(rest: _ByteReader, step: int, episode: int, before: DecodedState | None) -> WorldState:
    if before is None or before.episode != episode:
        known = "nothing" if before is None else f"episode {before.episode}"
        raise DamagedFile(f"{SOURCE} contains changes of episode {episode}, but {known} was received before.")
    old = before.state
    agent_count, station_count = COUNTS.unpack(rest.take(COUNTS.size))
    agent_rows = rest.rows(AGENT_CHANGE, agent_count)
    station_rows = rest.rows(STATION_CHANGE, station_count)
    _check_indices("agent", agent_rows["index"], len(old.agents))
    _check_indices("station", station_rows["index"], len(old.stations))
    agents, inventories, stations = old.agents.copy(), old.inventories.copy(), old.stations.copy()
    agents[agent_rows["index"]], inventories[agent_rows["index"]] = _tables(agent_rows["now"])
    stations[station_rows["index"], 3], stations[station_rows["index"], 4] = (
        station_rows["cooldown"],
        station_rows["stock"],
    )
    return WorldState(step, old.max_steps, old.walls, stations, agents, inventories)


def _check_indices(name: str, indices: np.ndarray, count: int) -> None:
    if len(indices) and int(indices.max()) >= count:
        raise DamagedFile(f"{SOURCE} names {name} {int(indices.max())}; there are {count}.")


def _agent_rows(agents: Integers, inventories: Integers) -> np.ndarray:
    rows = np.empty(len(agents), AGENT)
    rows["row"], rows["action"], rows["items"] = agents[:, :5], agents[:, 5] + 1, inventories
    return rows


def _tables(rows: np.ndarray) -> tuple[Integers, Integers]:
    actions = rows["action"].astype(np.int32) - 1
    return np.column_stack([rows["row"].astype(np.int32), actions]), rows["items"].astype(np.int32)


Y, X, FACING, FROZEN, _TEAM, ACTION = range(6)  # columns of agents
COOLDOWN, STOCK = 3, 4  # columns of stations
LETTERS = "-" + "".join(str(action) for action in range(len(ACTIONS)))  # of actions, from -1 on
INT32 = np.iinfo(np.int32)
LARGEST_REWARD = float(np.finfo(np.float32).max)


def difference(before: WorldState, after: WorldState, rewards: np.ndarray) -> dict[str, Any]:
    """The change from one state to the next. `rewards` float32 [agents]: of that step."""
    expected = _after_countdowns(before)
    width = before.width
    change = {
        "cells": _pairs(_cells(before, width), _cells(after, width)),
        "facings": _pairs(_facings_after(before, after.agents[:, ACTION]), after.agents[:, FACING]),
        "frozen": _pairs(expected.agents[:, FROZEN], after.agents[:, FROZEN]),
        "items": _pairs(before.inventories.ravel(), after.inventories.ravel()),
        "cooldowns": _pairs(expected.stations[:, COOLDOWN], after.stations[:, COOLDOWN]),
        "stocks": _pairs(before.stations[:, STOCK], after.stations[:, STOCK]),
    }
    described: dict[str, Any] = {name: pairs for name, pairs in change.items() if pairs}
    described["actions"] = "".join(LETTERS[action + 1] for action in after.agents[:, ACTION].tolist())
    paid = np.flatnonzero(rewards).tolist()
    if paid:
        described["rewards"] = [part for index in paid for part in (index, _short(rewards[index]))]
    return described


def apply_change(before: WorldState, change: dict[str, Any], source: str) -> WorldState:
    """The state after a change; DamagedFile names what does not fit."""
    after = _after_countdowns(before)
    agents, stations, inventories = after.agents, after.stations, after.inventories
    agents[:, ACTION] = _read_actions(change.get("actions", ""), len(agents), source)
    agents[:, FACING] = _facings_after(before, agents[:, ACTION])
    indices, cells = _read_pairs(change, "cells", len(agents), source)
    agents[indices, Y], agents[indices, X] = cells // before.width, cells % before.width
    for name, table, column in (
        ("facings", agents, FACING),
        ("frozen", agents, FROZEN),
        ("cooldowns", stations, COOLDOWN),
        ("stocks", stations, STOCK),
    ):
        indices, values = _read_pairs(change, name, len(table), source)
        table[indices, column] = values
    indices, values = _read_pairs(change, "items", inventories.size, source)
    inventories[indices // len(ITEMS), indices % len(ITEMS)] = values
    return validate_state(after, source)


def rewards_of(change: dict[str, Any], agent_count: int, source: str) -> np.ndarray:
    """float32 [agents]"""
    flat = change.get("rewards", [])
    rewards = np.zeros(agent_count, np.float32)
    if not isinstance(flat, list) or len(flat) % 2 or not all(_is_number(part) for part in flat):
        raise DamagedFile(f"{source}: rewards are not pairs of numbers.")
    for index, reward in zip(flat[::2], flat[1::2], strict=True):
        if not (isinstance(index, int) and 0 <= index < agent_count):
            raise DamagedFile(f"{source}: a reward has the index of no agent; there are {agent_count}.")
        if not abs(reward) <= LARGEST_REWARD:
            raise DamagedFile(f"{source}: a reward exceeds 32-bit floats.")
        rewards[index] = reward
    return rewards


def _after_countdowns(before: WorldState) -> WorldState:
    """The state one step later without any actions, in new tables."""
    agents, stations = before.agents.copy(), before.stations.copy()
    agents[:, FROZEN] = np.maximum(agents[:, FROZEN] - 1, 0)
    stations[:, COOLDOWN] = np.maximum(stations[:, COOLDOWN] - 1, 0)
    inventories = before.inventories.copy()
    return replace(before, step=before.step + 1, agents=agents, stations=stations, inventories=inventories)


def _facings_after(before: WorldState, actions: Integers) -> Integers:
    """Facings after the actions: an agent faces where it walks, unless it is frozen."""
    walks = (actions >= 1) & (actions <= 4) & (before.agents[:, FROZEN] == 0)
    facings: Integers = np.where(walks, actions - 1, before.agents[:, FACING]).astype(np.int32)
    return facings


def _cells(state: WorldState, width: int) -> Integers:
    cells: Integers = state.agents[:, Y] * width + state.agents[:, X]
    return cells


def _pairs(before: Integers, after: Integers) -> list[int]:
    indices = np.flatnonzero(before != after)
    flat: list[int] = np.column_stack([indices, after[indices]]).ravel().tolist()
    return flat


def _read_pairs(change: dict[str, Any], name: str, count: int, source: str) -> tuple[np.ndarray, np.ndarray]:
    flat = change.get(name, [])
    if not isinstance(flat, list) or len(flat) % 2 or len(flat) > 2 * count:
        raise DamagedFile(f"{source}: {name} is not a list of at most {count} pairs.")
    if not all(type(part) is int and INT32.min <= part <= INT32.max for part in flat):
        raise DamagedFile(f"{source}: {name} has values that are not 32-bit integers.")
    table = np.array(flat, np.int64).reshape(-1, 2)
    outside = (table[:, 0] < 0) | (table[:, 0] >= count)
    if outside.any():
        raise DamagedFile(f"{source}: {name} has the index {int(table[outside][0, 0])}; there are {count}.")
    return table[:, 0], table[:, 1].astype(np.int32)


def _read_actions(letters: Any, count: int, source: str) -> list[int]:
    if not isinstance(letters, str) or len(letters) != count or set(letters) - set(LETTERS):
        raise DamagedFile(f"{source}: actions are not {count} letters of '{LETTERS}'.")
    return [LETTERS.index(letter) - 1 for letter in letters]


def _short(reward: np.floating[Any]) -> float:
    """Rounded to the digits of a 32-bit float: 0.1, not 0.10000000149011612."""
    return float(str(np.float32(reward)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
