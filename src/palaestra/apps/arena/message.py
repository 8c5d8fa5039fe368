"""A world as a few hundred bytes for the browser: the whole of it once per episode, then what changed.

docs/arena.md has the layout byte by byte. Numbers are little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.arena.limits import check_size, refuse_impossible
from palaestra.apps.arena.state import WorldState
from palaestra.apps.arena.tables import ITEMS
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from palaestra.apps.arena.state import Integers

MAGIC = b"AR"
VERSION = 1
WHOLE, CHANGES = 0, 1

HEADER = struct.Struct("<2sBBII")  # magic, version, kind, episode, step
SIZES = struct.Struct("<IBBHHBx")  # max_steps, height, width, agents, stations, kinds of items
COUNTS = struct.Struct("<HH")  # agents and stations that changed
STATION = np.dtype([("place", "u1", 3), ("cooldown", "u1"), ("stock", "<i4")])  # place: y, x, kind
AGENT = np.dtype([("row", "u1", 5), ("action", "u1"), ("items", "u1", len(ITEMS))])  # y, x, facing, frozen, team
STATION_CHANGE = np.dtype([("index", "<u2"), ("cooldown", "u1"), ("stock", "<i4")])
AGENT_CHANGE = np.dtype([("index", "<u2"), ("now", AGENT)])
SOURCE = "A state message"


@dataclass(frozen=True)
class Received:
    episode: int  # counts the episodes of a lane; changes only fit the episode that they belong to
    state: WorldState


def encode_whole(state: WorldState, episode: int) -> bytes:
    sizes = SIZES.pack(state.max_steps, state.height, state.width, len(state.agents), len(state.stations), len(ITEMS))
    walls = np.packbits(state.walls.astype(bool)).tobytes()
    stations = np.empty(len(state.stations), STATION)
    stations["place"], stations["cooldown"] = state.stations[:, :3], state.stations[:, 3]
    stations["stock"] = state.stations[:, 4]
    header = HEADER.pack(MAGIC, VERSION, WHOLE, episode, state.step)
    agents = _agent_rows(state.agents, state.inventories)
    return b"".join([header, sizes, walls, stations.tobytes(), agents.tobytes()])


def encode_changes(before: WorldState, after: WorldState, episode: int) -> bytes:
    """Both states are of one episode; they need not be neighbours."""
    people = np.flatnonzero((before.agents != after.agents).any(1) | (before.inventories != after.inventories).any(1))
    places = np.flatnonzero((before.stations != after.stations).any(1))
    agents = np.empty(len(people), AGENT_CHANGE)
    agents["index"], agents["now"] = people, _agent_rows(after.agents[people], after.inventories[people])
    stations = np.empty(len(places), STATION_CHANGE)
    stations["index"] = places
    stations["cooldown"], stations["stock"] = after.stations[places, 3], after.stations[places, 4]
    header = HEADER.pack(MAGIC, VERSION, CHANGES, episode, after.step)
    return b"".join([header, COUNTS.pack(len(people), len(places)), agents.tobytes(), stations.tobytes()])


def decode(data: bytes, before: Received | None = None) -> Received:
    """`before`: what the last message gave; a message of changes needs it. Nothing in it is believed unchecked."""
    if len(data) < HEADER.size:
        raise DamagedFile(f"{SOURCE} has {len(data)} bytes; its header alone has {HEADER.size}.")
    magic, version, kind, episode, step = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise DamagedFile(f"{SOURCE} begins with {magic!r}; {MAGIC!r} was expected.")
    if version != VERSION:
        raise DamagedFile(f"{SOURCE} has version {version}; this Palaestra reads {VERSION}.")
    rest = _Rest(data, HEADER.size)
    if kind == WHOLE:
        state = _read_whole(rest, step)
    elif kind == CHANGES:
        state = _read_changes(rest, step, episode, before)
    else:
        raise DamagedFile(f"{SOURCE} is of kind {kind}; {WHOLE} (whole) or {CHANGES} (changes) was expected.")
    rest.expect_end()
    return Received(episode, refuse_impossible(state, SOURCE))


class _Rest:
    """What is left of a message; nobody reads beyond its end."""

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


def _read_whole(rest: _Rest, step: int) -> WorldState:
    max_steps, height, width, agent_count, station_count, item_count = SIZES.unpack(rest.take(SIZES.size))
    if item_count != len(ITEMS):
        raise DamagedFile(f"{SOURCE} knows {item_count} kinds of items; this Palaestra knows {len(ITEMS)}.")
    check_size(height, width, agent_count, station_count, SOURCE)
    bits = np.frombuffer(rest.take((height * width + 7) // 8), np.uint8)
    walls = np.unpackbits(bits, count=height * width).reshape(height, width)
    stations = rest.rows(STATION, station_count)
    agents, inventories = _tables(rest.rows(AGENT, agent_count))
    places = np.column_stack([stations["place"], stations["cooldown"], stations["stock"]]).astype(np.int32)
    return WorldState(step, max_steps, walls, places, agents, inventories)


def _read_changes(rest: _Rest, step: int, episode: int, before: Received | None) -> WorldState:
    if before is None or before.episode != episode:
        known = "nothing" if before is None else f"episode {before.episode}"
        raise DamagedFile(f"{SOURCE} tells changes of episode {episode}, and {known} was known.")
    old = before.state
    agent_count, station_count = COUNTS.unpack(rest.take(COUNTS.size))
    people = rest.rows(AGENT_CHANGE, agent_count)
    places = rest.rows(STATION_CHANGE, station_count)
    _check_indices("agent", people["index"], len(old.agents))
    _check_indices("station", places["index"], len(old.stations))
    agents, inventories, stations = old.agents.copy(), old.inventories.copy(), old.stations.copy()
    agents[people["index"]], inventories[people["index"]] = _tables(people["now"])
    stations[places["index"], 3], stations[places["index"], 4] = places["cooldown"], places["stock"]
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
