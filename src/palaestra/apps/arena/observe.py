"""Observations of an agent in three forms: docs/arena.md, "Observations"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from palaestra.apps.arena.tables import (
    ACTIONS,
    CODE_COUNT,
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
from palaestra.core.spaces import EnvInterface, FeatureSpec
from palaestra.envs.spaces import space_spec

if TYPE_CHECKING:
    from palaestra.apps.arena.batch import Arrays
    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.apps.arena.state import Bytes, WorldState


TOKEN_PARTS = 3  # coordinate, feature id, value


def action_space() -> spaces.Discrete:
    """A new space for each caller: a space has its own random generator."""
    return spaces.Discrete(len(ACTIONS))


def observation_space(settings: ArenaSettings) -> spaces.Space[Any]:
    """The space of one agent. It depends on observation, view and tokens only, not on the difficulty."""
    side = settings.view
    match settings.observation:
        case "bytes":
            cells = spaces.Box(0, CODE_COUNT - 1, (side, side), np.uint8)
            return spaces.Dict({"cells": cells, "self": spaces.Box(0, 255, (len(SELF),), np.uint8)})
        case "tokens":
            return spaces.Box(0, 255, (settings.tokens, TOKEN_PARTS), np.uint8)
        case "box":
            return spaces.Box(0, 255, (len(FEATURES), side, side), np.uint8)


def feature_specs(settings: ArenaSettings) -> tuple[FeatureSpec, ...]:
    """Names of tokens and channels; none for `bytes`, whose codes are not features."""
    return () if settings.observation == "bytes" else FEATURES


def interface_of_agent(settings: ArenaSettings) -> EnvInterface:
    return EnvInterface(space_spec(observation_space(settings)), space_spec(action_space()), feature_specs(settings))


def empty_rows(settings: ArenaSettings, count: int) -> Arrays:
    """Zero arrays for the observations of `count` agents: [count, …]."""
    space = observation_space(settings)
    if isinstance(space, spaces.Dict):
        return {name: np.zeros((count, *(part.shape or ())), np.uint8) for name, part in space.spaces.items()}
    rows: np.ndarray = np.zeros((count, *(space.shape or ())), np.uint8)
    return rows


def row_of(arrays: Arrays, row: int) -> Any:
    """One agent's observation, copied."""
    if isinstance(arrays, dict):
        return {name: part[row].copy() for name, part in arrays.items()}
    return arrays[row].copy()


LARGEST = 255
NO_TOKEN = (255, 255, 255)

Features = dict[str, int]  # those that are not 0, in the order of their ids
Cell = tuple[int, int]  # of the map (y, x), or of a view (row, column)
Scene = dict[Cell, Features]  # what stands where; a cell that is missing, or has no features, is floor


@dataclass(frozen=True)
class ArraySpec:
    shape: tuple[int, ...]
    dtype: str = "uint8"


def observation_specs(settings: ArenaSettings) -> ArraySpec | dict[str, ArraySpec]:
    """Shapes and dtypes of one agent's observation; a batch has one more axis in front."""
    side = settings.view
    if settings.observation == "bytes":
        return {"cells": ArraySpec((side, side)), "self": ArraySpec((len(SELF),))}
    if settings.observation == "tokens":
        return ArraySpec((settings.tokens, 3))
    return ArraySpec((len(FEATURES), side, side))


def scene_of(state: WorldState, settings: ArenaSettings, team: int) -> Scene:
    """The map as that team sees it, surrounded by walls as wide as the view. Shared by all agents of the team."""
    return _walls(state, settings.radius) | _stations(state, settings) | _agents(state, team)


def bytes_view(state: WorldState, settings: ArenaSettings, agent: int, scene: Scene | None = None) -> dict[str, Bytes]:
    """`cells` [view, view] and `self` [9]"""
    cells = np.full((settings.view, settings.view), UNSEEN, np.uint8)
    for cell, features in _visible_cells(state, settings, agent, scene).items():
        cells[cell] = _code(features)
    own = _self_features(state, agent)
    return {"cells": cells, "self": np.array([own.get(name, 0) for name in SELF], np.uint8)}


def tokens_view(
    state: WorldState, settings: ArenaSettings, agent: int, scene: Scene | None = None
) -> tuple[Bytes, int]:
    """Tokens [tokens, 3], and the number of tokens that were dropped."""
    middle = settings.radius

    def distance(cell: Cell) -> int:
        return (cell[0] - middle) ** 2 + (cell[1] - middle) ** 2

    cells = {cell: features for cell, features in _visible_cells(state, settings, agent, scene).items() if features}
    nearest_first = sorted(cells, key=lambda cell: (distance(cell), cell))
    groups = [((middle, middle), _self_features(state, agent)), *((cell, cells[cell]) for cell in nearest_first)]
    tokens = [
        (row << 4 | column, FEATURE_ID[name], value)
        for (row, column), features in groups
        for name, value in features.items()
    ]
    kept = tokens[: settings.tokens]
    padding = [NO_TOKEN] * (settings.tokens - len(kept))
    return np.array(kept + padding, np.uint8), len(tokens) - len(kept)


def box_view(state: WorldState, settings: ArenaSettings, agent: int, scene: Scene | None = None) -> Bytes:
    """[features, view, view]"""
    box = np.zeros((len(FEATURES), settings.view, settings.view), np.uint8)
    for (row, column), features in _visible_cells(state, settings, agent, scene).items():
        for name, value in features.items():
            box[FEATURE_ID[name], row, column] = value
    for name, value in _self_features(state, agent).items():
        box[FEATURE_ID[name], settings.radius, settings.radius] = value
    return box


def _visible_cells(state: WorldState, settings: ArenaSettings, agent: int, scene: Scene | None) -> Scene:
    """Features by row and column of the view; unseen cells are missing, floor has no features."""
    y, x, _, _, team, _ = state.agents[agent].tolist()
    scene = scene_of(state, settings, team) if scene is None else scene
    radius = settings.radius
    sight = radius if settings.sight is None else settings.sight
    near = range(-sight, sight + 1)
    return {(radius + dy, radius + dx): scene.get((y + dy, x + dx), {}) for dy in near for dx in near}


def _walls(state: WorldState, margin: int) -> Scene:
    """Walls of the map, and a margin of walls around it."""
    with_margin = np.pad(state.walls, margin, constant_values=1)
    return {(y - margin, x - margin): {"wall": 1} for y, x in np.argwhere(with_margin).tolist()}


def _stations(state: WorldState, settings: ArenaSettings) -> Scene:
    found = {}
    for y, x, kind, cooldown, stock in state.stations.tolist():
        features = {STATIONS[kind]: 1}
        if settings.show_state:
            features |= {"station.cooldown": cooldown, "station.exhausted": int(stock == 0)}
        found[y, x] = _to_bytes(features)
    return found


def _agents(state: WorldState, team: int) -> Scene:
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
