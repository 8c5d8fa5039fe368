"""What an agent sees and does, as Gymnasium's spaces and as the specs that a checkpoint keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from palaestra.apps.arena.tables import ACTIONS, CODE_COUNT, FEATURES, SELF
from palaestra.core.spaces import EnvInterface, FeatureSpec
from palaestra.envs.spaces import space_spec

if TYPE_CHECKING:
    from palaestra.apps.arena.batch import Arrays
    from palaestra.apps.arena.settings import ArenaSettings

TOKEN_PARTS = 3  # coordinate, feature id, value


def action_space() -> spaces.Discrete:
    """A fresh one: a space has dice of its own."""
    return spaces.Discrete(len(ACTIONS))


def observation_space(settings: ArenaSettings) -> spaces.Space[Any]:
    """Of one agent. It depends on observation, view and tokens, and on no knob of difficulty."""
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
    """Tokens and channels have names; the codes of `bytes` are a language of their own."""
    return () if settings.observation == "bytes" else FEATURES


def interface_of_agent(settings: ArenaSettings) -> EnvInterface:
    return EnvInterface(space_spec(observation_space(settings)), space_spec(action_space()), feature_specs(settings))


def empty_rows(settings: ArenaSettings, count: int) -> Arrays:
    """Where `count` agents' observations are written: [count, …]"""
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
