"""What happened between two neighbouring steps, as plain data for JSON, and back.

Only what changed is said. What changes by itself is not: cooldowns and freezes above 0 fall by one. Lists are flat,
`[index, value, index, value, …]`; cells are counted row by row; `actions` has one letter per agent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.limits import refuse_impossible
from palaestra.apps.arena.tables import ACTIONS, ITEMS
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from palaestra.apps.arena.state import Integers, WorldState

Y, X, FACING, FROZEN, _TEAM, ACTION = range(6)  # columns of agents
COOLDOWN, STOCK = 3, 4  # columns of stations
LETTERS = "-" + "".join(str(action) for action in range(len(ACTIONS)))  # of actions, from -1 on
INT32 = np.iinfo(np.int32)
LARGEST_REWARD = float(np.finfo(np.float32).max)


def difference(before: WorldState, after: WorldState, rewards: np.ndarray) -> dict[str, Any]:
    """`rewards` float32 [agents], of the step that led from one to the other"""
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


def follow(before: WorldState, change: dict[str, Any], source: str) -> WorldState:
    """The state after a change; whatever does not fit is refused by name."""
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
    return refuse_impossible(after, source)


def rewards_of(change: dict[str, Any], agent_count: int, source: str) -> np.ndarray:
    """float32 [agents]"""
    flat = change.get("rewards", [])
    rewards = np.zeros(agent_count, np.float32)
    if not isinstance(flat, list) or len(flat) % 2 or not all(_is_number(part) for part in flat):
        raise DamagedFile(f"{source}: rewards are not pairs of numbers.")
    for index, reward in zip(flat[::2], flat[1::2], strict=True):
        if not (isinstance(index, int) and 0 <= index < agent_count):
            raise DamagedFile(f"{source}: rewards are paid to somebody else than the {agent_count} agents.")
        if not abs(reward) <= LARGEST_REWARD:
            raise DamagedFile(f"{source}: a reward does not fit into 32 bits.")
        rewards[index] = reward
    return rewards


def _after_countdowns(before: WorldState) -> WorldState:
    """One step later, if nobody did anything; new tables, to be written to"""
    agents, stations = before.agents.copy(), before.stations.copy()
    agents[:, FROZEN] = np.maximum(agents[:, FROZEN] - 1, 0)
    stations[:, COOLDOWN] = np.maximum(stations[:, COOLDOWN] - 1, 0)
    inventories = before.inventories.copy()
    return replace(before, step=before.step + 1, agents=agents, stations=stations, inventories=inventories)


def _facings_after(before: WorldState, actions: Integers) -> Integers:
    """Who walks faces there, unless it was frozen."""
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
        raise DamagedFile(f"{source}: {name} holds something else than whole numbers of 32 bits.")
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
    """As many digits as 32 bits need: 0.1, not 0.10000000149011612"""
    return float(str(np.float32(reward)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
