"""Generates a random map: walls, rooms and stations, as docs/arena.md describes under "A new episode"."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.arena.tables import STEPS
from palaestra.envs.vector.batch import SeedStream

if TYPE_CHECKING:
    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.apps.arena.state import Bytes

Cell = tuple[int, int]  # y, x
# Clockwise from the north; the direct neighbours have even indices.
AROUND = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))


@dataclass(frozen=True)
class Map:
    walls: Bytes  # [height, width] 1 where a wall is
    stations: tuple[tuple[int, int, int], ...]  # y, x, kind, in the order in which they were placed
    floor: tuple[Cell, ...]  # every free cell, row by row


def generate_map(settings: ArenaSettings, rng: WorldRng) -> Map:
    """Tries until all agents and stations have room; later attempts have fewer walls."""
    for attempt in count():
        walls = _border(settings)
        if settings.room > 0 and attempt == 0:
            _build_rooms(walls, settings.room, rng)
        for _ in range(settings.walls >> attempt):
            _build_wall(walls, rng)
        floor = _largest_area(walls)
        if len(floor) < settings.agents + 4 * settings.station_count:
            continue
        _keep_only(walls, floor)
        stations = _spawn_stations(settings, floor, rng)
        if stations is not None:
            return Map(walls, tuple(stations), tuple(floor))
    raise AssertionError("unreachable: attempts do not end")


def _border(settings: ArenaSettings) -> Bytes:
    walls = np.zeros((settings.height, settings.width), np.uint8)
    walls[[0, -1], :] = 1
    walls[:, [0, -1]] = 1
    return walls


def _build_rooms(walls: Bytes, room: int, rng: WorldRng) -> None:
    height, width = walls.shape
    pitch = room + 1
    walls[:, pitch : width - 1 : pitch] = 1
    walls[pitch : height - 1 : pitch, :] = 1
    for top in range(1, height - 1, pitch):
        for left in range(1, width - 1, pitch):
            rows = min(room, height - 1 - top)
            columns = min(room, width - 1 - left)
            if left + pitch < width - 1:  # there is a room to the east
                walls[top + rng.below(rows), left + room] = 0
            if top + pitch < height - 1:  # there is a room to the south
                walls[top + room, left + rng.below(columns)] = 0


def _build_wall(walls: Bytes, rng: WorldRng) -> None:
    height, width = walls.shape
    y = 1 + rng.below(height - 2)
    x = 1 + rng.below(width - 2)
    down = rng.below(2) == 1
    length = 2 + rng.below(4)
    for _ in range(length):
        if y == height - 1 or x == width - 1:
            return
        walls[y, x] = 1
        y, x = (y + 1, x) if down else (y, x + 1)


def _largest_area(walls: Bytes) -> list[Cell]:
    """Cells of the largest connected area, row by row; among equal ones the area whose first cell comes first."""
    largest: set[Cell] = set()
    visited: set[Cell] = set()
    for cell in _free_cells(walls):
        if cell not in visited:
            area = _area_around(cell, walls)
            visited |= area
            if len(area) > len(largest):
                largest = area
    return sorted(largest)


def _free_cells(walls: Bytes) -> list[Cell]:
    return [(int(y), int(x)) for y, x in np.argwhere(walls == 0)]


def _area_around(start: Cell, walls: Bytes) -> set[Cell]:
    """All cells reachable from `start`."""
    area, waiting = {start}, [start]
    while waiting:
        y, x = waiting.pop()
        for dy, dx in STEPS:
            near = (y + dy, x + dx)
            if not walls[near] and near not in area:
                area.add(near)
                waiting.append(near)
    return area


def _keep_only(walls: Bytes, floor: list[Cell]) -> None:
    walls[:] = 1
    for cell in floor:
        walls[cell] = 0


def _spawn_stations(settings: ArenaSettings, floor: list[Cell], rng: WorldRng) -> list[tuple[int, int, int]] | None:
    """Places stations and removes their cells from `floor`; None if a station has no possible cell."""
    free = set(floor)
    stations: dict[Cell, int] = {}
    for kind, station in enumerate(settings.stations):
        for _ in range(station.count):
            entry = rng.below(len(floor))
            candidates = floor[entry:] + floor[:entry]
            cell = next((cell for cell in candidates if _can_hold_station(cell, free, stations)), None)
            if cell is None:
                return None
            floor.remove(cell)
            free.remove(cell)
            stations[cell] = kind
    return [(y, x, kind) for (y, x), kind in stations.items()]


def _can_hold_station(cell: Cell, free: set[Cell], stations: dict[Cell, int]) -> bool:
    return _keeps_paths_open(cell, free) and _keeps_stations_reachable(cell, free, stations)


def _keeps_paths_open(cell: Cell, free: set[Cell]) -> bool:
    """Whether the free direct neighbours stay connected around the cell, and there is at least one."""
    y, x = cell
    ring = [(y + dy, x + dx) in free for dy, dx in AROUND]
    if all(ring):
        return True
    closed = ring.index(False)
    in_order = [(index % 8, ring[index % 8]) for index in range(closed, closed + 8)]  # begins with a closed cell
    runs: list[list[int]] = []
    for position, (index, is_free) in enumerate(in_order):
        if is_free:
            if not in_order[position - 1][1]:
                runs.append([])
            runs[-1].append(index)
    return sum(any(index % 2 == 0 for index in run) for run in runs) == 1


def _keeps_stations_reachable(cell: Cell, free: set[Cell], stations: dict[Cell, int]) -> bool:
    return all(_direct_neighbours(near) & free != {cell} for near in _direct_neighbours(cell) if near in stations)


def _direct_neighbours(cell: Cell) -> set[Cell]:
    y, x = cell
    return {(y + dy, x + dx) for dy, dx in STEPS}


class WorldRng(SeedStream):
    def below(self, count: int) -> int:
        """A random number from 0 to count - 1. For count up to 2^31, its bias is below 5e-10."""
        return ((self.next() >> 32) * count) >> 32
