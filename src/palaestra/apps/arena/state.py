"""The state of one world as arrays: rendered, sent to the browser, recorded; and bounds for states from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.settings import LARGEST_SIDE, MAX_TEAMS
from palaestra.apps.arena.tables import ACTIONS, ITEMS, STATIONS
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    Integers = np.ndarray[Any, np.dtype[np.int32]]
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]


ENDLESS = -1  # stock of a station without a limit


@dataclass(frozen=True)
class WorldState:
    step: int
    max_steps: int
    walls: Bytes  # [height, width] 1 where a wall is
    stations: Integers  # [stations, 5] y, x, kind (index into STATIONS), cooldown, stock left or ENDLESS
    agents: Integers  # [agents, 6] y, x, facing (0 north to 3 west), frozen, team, last action or -1
    inventories: Integers  # [agents, items]

    @property
    def height(self) -> int:
        return int(self.walls.shape[0])

    @property
    def width(self) -> int:
        return int(self.walls.shape[1])


SMALLEST_SIDE = 1
MAX_AGENTS = 1024
MAX_STATIONS = 256 * len(STATIONS)
MAX_STEPS = 1_000_000
MAX_COUNT = 255  # of an item, a cooldown, a freeze
MAX_STOCK = 65_535


def validate_state(state: WorldState, source: str) -> WorldState:
    """Returns the state if all its values are within bounds; else DamagedFile names the value. `source`: for errors."""
    check_size(state.height, state.width, len(state.agents), len(state.stations), source)
    _check("max_steps", np.array([state.max_steps]), 1, MAX_STEPS, source)
    _check("the step", np.array([state.step]), 0, state.max_steps, source)
    _check("a cell of the walls", state.walls, 0, 1, source)
    stations = {
        "y": (0, state.height - 1),
        "x": (0, state.width - 1),
        "kind": (0, len(STATIONS) - 1),
        "cooldown": (0, MAX_COUNT),
        "stock": (ENDLESS, MAX_STOCK),
    }
    agents = {
        "y": (0, state.height - 1),
        "x": (0, state.width - 1),
        "facing": (0, 3),
        "frozen": (0, MAX_COUNT),
        "team": (0, MAX_TEAMS - 1),
        "last action": (-1, len(ACTIONS) - 1),
    }
    for column, (name, (low, high)) in enumerate(stations.items()):
        _check(f"a station's {name}", state.stations[:, column], low, high, source)
    for column, (name, (low, high)) in enumerate(agents.items()):
        _check(f"an agent's {name}", state.agents[:, column], low, high, source)
    _check("an agent's count of an item", state.inventories, 0, MAX_COUNT, source)
    return state


def check_size(height: int, width: int, agents: int, stations: int, source: str) -> None:
    """Checks sizes before anything is allocated."""
    for name, value, low, high in (
        ("height", height, SMALLEST_SIDE, LARGEST_SIDE),
        ("width", width, SMALLEST_SIDE, LARGEST_SIDE),
        ("number of agents", agents, 0, MAX_AGENTS),
        ("number of stations", stations, 0, MAX_STATIONS),
    ):
        if not low <= value <= high:
            raise DamagedFile(f"{source}: the {name} is {value}; it must be from {low} to {high}.")


def _check(name: str, values: Integers | np.ndarray, low: int, high: int, source: str) -> None:
    wrong = (values < low) | (values > high)
    if wrong.any():
        raise DamagedFile(f"{source}: {name} is {int(values[wrong].flat[0])}; it must be from {low} to {high}.")


def check_shapes(stations: np.ndarray, agents: np.ndarray, inventories: np.ndarray, source: str) -> None:
    """Checks the columns of all tables, and that there are as many inventories as agents."""
    wanted = (("stations", stations, 5), ("agents", agents, 6), ("inventories", inventories, len(ITEMS)))
    for name, table, columns in wanted:
        if table.ndim != 2 or table.shape[1] != columns:
            raise DamagedFile(f"{source}: {name} has shape {list(table.shape)}; rows of {columns} were expected.")
    if len(agents) != len(inventories):
        raise DamagedFile(f"{source}: there are {len(agents)} agents and {len(inventories)} inventories.")
