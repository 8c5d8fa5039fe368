"""What one agent sees of a world, in three forms: docs/arena.md, "What is seen"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.arena.tables import (
    COOLING,
    EXHAUSTED,
    FEATURE_ID,
    FEATURES,
    FIRST_STATION,
    FLOOR,
    FOE,
    FRIEND,
    FROZEN_FOE,
    FROZEN_FRIEND,
    ITEMS,
    READY,
    SELF,
    STATIONS,
    UNSEEN,
    WALL,
)

if TYPE_CHECKING:
    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.apps.arena.state import Bytes, WorldState

LARGEST = 255
NO_TOKEN = (255, 255, 255)

Features = dict[str, int]  # those that are not 0, in the order of their ids


@dataclass(frozen=True)
class ArraySpec:
    shape: tuple[int, ...]
    dtype: str = "uint8"


def observation_specs(settings: ArenaSettings) -> ArraySpec | dict[str, ArraySpec]:
    """Of one agent; a batch has one more axis in front."""
    side = settings.view
    if settings.observation == "bytes":
        return {"cells": ArraySpec((side, side)), "self": ArraySpec((len(SELF),))}
    if settings.observation == "tokens":
        return ArraySpec((settings.tokens, 3))
    return ArraySpec((len(FEATURES), side, side))


def bytes_view(state: WorldState, settings: ArenaSettings, agent: int) -> dict[str, Bytes]:
    """`cells` [view, view] and `self` [9]"""
    cells = np.full((settings.view, settings.view), UNSEEN, np.uint8)
    for place, features in _seen_cells(state, settings, agent).items():
        cells[place] = _code(features)
    knowledge = _self_features(state, agent)
    return {"cells": cells, "self": np.array([knowledge.get(name, 0) for name in SELF], np.uint8)}


def tokens_view(state: WorldState, settings: ArenaSettings, agent: int) -> tuple[Bytes, int]:
    """[tokens, 3], and how many found no room"""
    middle = settings.radius

    def distance(place: tuple[int, int]) -> int:
        return (place[0] - middle) ** 2 + (place[1] - middle) ** 2

    cells = _seen_cells(state, settings, agent)
    nearest_first = sorted(cells, key=lambda place: (distance(place), place))
    groups = [((middle, middle), _self_features(state, agent)), *((place, cells[place]) for place in nearest_first)]
    tokens = [
        (row << 4 | column, FEATURE_ID[name], value)
        for (row, column), features in groups
        for name, value in features.items()
    ]
    kept = tokens[: settings.tokens]
    padding = [NO_TOKEN] * (settings.tokens - len(kept))
    return np.array(kept + padding, np.uint8), len(tokens) - len(kept)


def box_view(state: WorldState, settings: ArenaSettings, agent: int) -> Bytes:
    """[features, view, view]"""
    box = np.zeros((len(FEATURES), settings.view, settings.view), np.uint8)
    for (row, column), features in _seen_cells(state, settings, agent).items():
        for name, value in features.items():
            box[FEATURE_ID[name], row, column] = value
    for name, value in _self_features(state, agent).items():
        box[FEATURE_ID[name], settings.radius, settings.radius] = value
    return box


def _seen_cells(state: WorldState, settings: ArenaSettings, agent: int) -> dict[tuple[int, int], Features]:
    """By row and column of the view; cells not seen are missing."""
    y, x, _, _, team, _ = state.agents[agent].tolist()
    occupied = _stations(state, settings) | _agents(state, team)
    sight = settings.radius if settings.sight is None else settings.sight
    seen = {}
    for dy in range(-sight, sight + 1):
        for dx in range(-sight, sight + 1):
            place = (settings.radius + dy, settings.radius + dx)
            if _is_wall(state, y + dy, x + dx):
                seen[place] = {"wall": 1}
            else:
                seen[place] = occupied.get((y + dy, x + dx), {})
    return seen


def _is_wall(state: WorldState, y: int, x: int) -> bool:
    inside = 0 <= y < state.height and 0 <= x < state.width
    return not inside or bool(state.walls[y, x])


def _stations(state: WorldState, settings: ArenaSettings) -> dict[tuple[int, int], Features]:
    found = {}
    for y, x, kind, cooldown, stock in state.stations.tolist():
        features = {STATIONS[kind]: 1}
        if settings.show_state:
            features |= {"station.cooldown": cooldown, "station.exhausted": int(stock == 0)}
        found[y, x] = _to_bytes(features)
    return found


def _agents(state: WorldState, team: int) -> dict[tuple[int, int], Features]:
    """As an agent of `team` sees them."""
    found = {}
    for (y, x, facing, frozen, other_team, _), items in zip(
        state.agents.tolist(), state.inventories.tolist(), strict=True
    ):
        found[y, x] = _to_bytes(
            {
                "agent.friend": int(other_team == team),
                "agent.foe": int(other_team != team),
                "agent.facing": 1 + facing,
                "agent.frozen": frozen,
                "agent.armour": items[ITEMS.index("armour")],
                "agent.heart": items[ITEMS.index("heart")],
            }
        )
    return found


def _self_features(state: WorldState, agent: int) -> Features:
    _, _, facing, frozen, _, last_action = state.agents[agent].tolist()
    items = state.inventories[agent].tolist()
    return _to_bytes(
        {f"inventory.{item}": count for item, count in zip(ITEMS, items, strict=True)}
        | {
            "self.facing": 1 + facing,
            "self.frozen": frozen,
            "self.last_action": 1 + last_action,
            "self.progress": 255 * state.step // state.max_steps,
        }
    )


def _to_bytes(features: Features) -> Features:
    return {name: min(value, LARGEST) for name, value in features.items() if value}


def _code(features: Features) -> int:
    if not features:
        return FLOOR
    if "wall" in features:
        return WALL
    if "agent.friend" in features:
        return FROZEN_FRIEND if "agent.frozen" in features else FRIEND
    if "agent.foe" in features:
        return FROZEN_FOE if "agent.frozen" in features else FOE
    kind = next(number for number, name in enumerate(STATIONS) if name in features)
    if "station.exhausted" in features:
        return FIRST_STATION + 3 * kind + EXHAUSTED
    return FIRST_STATION + 3 * kind + (COOLING if "station.cooldown" in features else READY)
