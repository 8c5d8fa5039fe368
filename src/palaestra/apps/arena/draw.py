"""A world as a picture: the ground of its map, and a sprite for each station and agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.arena.ground import ground_picture
from palaestra.apps.arena.sprites import CLOCK_MARKS, agent_sprite, station_sprite
from palaestra.apps.arena.tables import COOLING, EXHAUSTED, ITEMS, READY

if TYPE_CHECKING:
    from palaestra.apps.arena.canvas import Sprite
    from palaestra.apps.arena.ground import Picture
    from palaestra.apps.arena.state import WorldState

CELL = 16  # pixels, when no size is asked for
SMALLEST_CELL, LARGEST_CELL = 4, 96
PRECIOUS = ("heart", "battery", "ore")  # an agent shows the first of these that it carries


def draw_world(state: WorldState, size: int | None = None) -> Picture:
    """[height, width, 3]; the longer side has at most `size` pixels, a whole number for each cell."""
    cell = cell_size(state, size)
    pixels = ground_picture(state.walls, cell).copy()
    for y, x, kind, cooldown, stock in state.stations.tolist():
        look = station_state(cooldown, stock)
        clock = min(cooldown, CLOCK_MARKS) if look == COOLING else 0
        _lay(pixels, y, x, station_sprite(cell, kind, look, clock))
    for (y, x, facing, frozen, team, _), items in zip(state.agents.tolist(), state.inventories.tolist(), strict=True):
        carried = dict(zip(ITEMS, items, strict=True))
        cargo = next((name for name in PRECIOUS if carried[name]), "")
        has_armour, has_charge = carried["armour"] > 0, carried["charge"] > 0
        _lay(pixels, y, x, agent_sprite(cell, team, facing, frozen > 0, cargo, has_armour, has_charge))
    return pixels


def cell_size(state: WorldState, size: int | None) -> int:
    """Pixels along the side of a cell"""
    if size is None:
        return CELL
    return min(max(size // max(state.height, state.width), SMALLEST_CELL), LARGEST_CELL)


def station_state(cooldown: int, stock: int) -> int:
    """READY, COOLING or EXHAUSTED"""
    if stock == 0:
        return EXHAUSTED
    return COOLING if cooldown > 0 else READY


def _lay(pixels: Picture, y: int, x: int, sprite: Sprite) -> None:
    cell = len(sprite.keep)
    place = pixels[y * cell : (y + 1) * cell, x * cell : (x + 1) * cell]
    np.add(place * sprite.keep, sprite.color, out=place, casting="unsafe")
