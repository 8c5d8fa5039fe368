"""Renders a world as an image: the ground of its map, and a sprite for each station and agent."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena import palette
from palaestra.apps.arena.sprites import CLOCK_MARKS, agent_sprite, station_sprite
from palaestra.apps.arena.tables import COOLING, EXHAUSTED, ITEMS, READY

if TYPE_CHECKING:
    from palaestra.apps.arena.sprites import Sprite
    from palaestra.apps.arena.state import Bytes, WorldState

    Plane = np.ndarray[Any, np.dtype[Any]]  # [height, width] in pixels
    Image = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]

CELL = 16  # pixels, the default
SMALLEST_CELL, LARGEST_CELL = 4, 96
CARGO_PRIORITY = ("heart", "battery", "ore")  # an agent shows the first of these that it carries


def draw_world(state: WorldState, size: int | None = None) -> Image:
    """[height, width, 3]; the longer side has at most `size` pixels, with an integer number of pixels per cell."""
    cell = cell_size(state, size)
    pixels = ground_image(state.walls, cell).copy()
    for y, x, kind, cooldown, stock in state.stations.tolist():
        state_code = station_state(cooldown, stock)
        clock = min(cooldown, CLOCK_MARKS) if state_code == COOLING else 0
        _blend(pixels, y, x, station_sprite(cell, kind, state_code, clock))
    for (y, x, facing, frozen, team, _), items in zip(state.agents.tolist(), state.inventories.tolist(), strict=True):
        carried = dict(zip(ITEMS, items, strict=True))
        cargo = next((name for name in CARGO_PRIORITY if carried[name]), "")
        has_armour, has_charge = carried["armour"] > 0, carried["charge"] > 0
        _blend(pixels, y, x, agent_sprite(cell, team, facing, frozen > 0, cargo, has_armour, has_charge))
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


def _blend(pixels: Image, y: int, x: int, sprite: Sprite) -> None:
    cell = len(sprite.keep)
    region = pixels[y * cell : (y + 1) * cell, x * cell : (x + 1) * cell]
    np.add(region * sprite.keep, sprite.color, out=region, casting="unsafe")


FINE_CELL = 10  # pixels; cells of at least this size get details
MAX_CACHE_BYTES = 64 << 20  # bytes; about 130 maps of 25 x 25 at 16 pixels, the most that a mosaic shows


_ground_cache: OrderedDict[tuple[bytes, int, int], Image] = OrderedDict()  # least recently used first


def ground_image(walls: Bytes, cell: int) -> Image:
    """The ground of a map, [height * cell, width * cell, 3], read-only and cached."""
    key = (walls.tobytes(), walls.shape[1], cell)
    image = _ground_cache.pop(key, None)
    if image is None:
        image = _draw(walls != 0, cell)
        room = MAX_CACHE_BYTES - image.nbytes
        while _ground_cache and sum(kept.nbytes for kept in _ground_cache.values()) > room:
            _ground_cache.popitem(last=False)
    _ground_cache[key] = image
    return image


def _draw(is_wall: Plane, cell: int) -> Image:
    pixels = _floor(*is_wall.shape, cell).copy()
    solid = _enlarge(is_wall, cell)
    _cast_shadows(pixels, solid, cell)
    _draw_walls(pixels, is_wall, solid, cell)
    image: Image = np.clip(pixels + 0.5, 0, 255).astype(np.uint8)
    image.flags.writeable = False
    return image


@lru_cache(maxsize=2)
def _floor(height: int, width: int, cell: int) -> Plane:
    """Sand with a faint chequerboard, and pebbles in large cells."""
    rng = np.random.default_rng(7)  # fixed seed: the ground must not change between frames
    chequer = (np.add.outer(np.arange(height), np.arange(width)) % 2).astype(bool)
    colors = np.where(chequer[..., None], palette.SAND_SHADE, palette.SAND) + rng.normal(0, 1.6, (height, width, 1))
    pixels = _enlarge(colors.astype(np.float32), cell)
    if cell < FINE_CELL:
        return pixels
    side = max(1, cell // 14)
    for color in (palette.PEBBLE, palette.SAND_LIGHT):  # few and flat: noise in every pixel would enlarge videos
        count = height * width // 2
        y, x = rng.integers(0, height * cell - side, count), rng.integers(0, width * cell - side, count)
        for down in range(side):
            for right in range(side):
                pixels[y + down, x + right] = color
    return pixels


def _cast_shadows(pixels: Plane, solid: Plane, cell: int) -> None:
    """Shadows of walls for light from the north-west, darker near the wall."""
    darkness = np.zeros((*solid.shape, 1), np.float32)
    for part, strength in ((0.34, 0.16), (0.2, 0.12)):
        reach = max(1, round(cell * part))
        shadow = np.zeros_like(solid)
        shadow[reach:] |= solid[:-reach]
        shadow[:, reach:] |= solid[:, :-reach]
        shadow[reach:, reach:] |= solid[:-reach, :-reach]
        darkness[shadow] += strength
    pixels += (np.array(palette.SHADOW, np.float32) - pixels) * darkness


def _draw_walls(pixels: Plane, is_wall: Plane, solid: Plane, cell: int) -> None:
    """A light top, and a dark front where the cell to the south is open."""
    pixels[solid] = palette.WALL_TOP
    front = max(1, round(cell * 0.36))
    edge = max(1, round(cell * 0.08))
    open_south = _enlarge(is_wall & ~_neighbour(is_wall, 1, 0), cell)
    open_north = _enlarge(is_wall & ~_neighbour(is_wall, -1, 0), cell)
    open_west = _enlarge(is_wall & ~_neighbour(is_wall, 0, -1), cell)
    open_east = _enlarge(is_wall & ~_neighbour(is_wall, 0, 1), cell)
    row = np.arange(pixels.shape[0])[:, None] % cell
    column = np.arange(pixels.shape[1])[None, :] % cell
    pixels[open_north & (row < edge)] = palette.WALL_EDGE
    pixels[open_west & (column < edge)] = palette.WALL_EDGE
    pixels[open_east & (column >= cell - edge)] = palette.mix(palette.WALL_TOP, palette.WALL_FRONT, 0.5)
    pixels[open_south & (row >= cell - front)] = palette.WALL_FRONT
    pixels[open_south & (row == cell - front)] = palette.mix(palette.WALL_TOP, palette.WALL_EDGE, 0.6)
    if cell >= FINE_CELL:
        pixels[open_south & (row >= cell - edge)] = palette.WALL_FOOT


def _neighbour(is_wall: Plane, down: int, right: int) -> Plane:
    """[height, width]: whether the cell at this offset is a wall; outside of the map there are walls."""
    height, width = is_wall.shape
    padded = np.pad(is_wall, 1, constant_values=True)
    return padded[1 + down : 1 + down + height, 1 + right : 1 + right + width]


def _enlarge(plane: Plane, cell: int) -> Plane:
    return plane.repeat(cell, 0).repeat(cell, 1)
