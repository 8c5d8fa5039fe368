"""Floor and walls of a map: drawn once, since they do not change within an episode."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena import palette

if TYPE_CHECKING:
    from palaestra.apps.arena.state import Bytes

    Plane = np.ndarray[Any, np.dtype[Any]]  # [height, width] in pixels
    Picture = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]

FINE_CELL = 10  # pixels; from here on there is room for grain
MAX_KEPT = 64 << 20  # bytes; some 130 maps of 25 x 25 at 16 pixels, as many as a mosaic may show


_drawn: OrderedDict[tuple[bytes, int, int], Picture] = OrderedDict()  # those used last stand at the end


def ground_picture(walls: Bytes, cell: int) -> Picture:
    """[height * cell, width * cell, 3], not to be written to"""
    key = (walls.tobytes(), walls.shape[1], cell)
    picture = _drawn.pop(key, None)
    if picture is None:
        picture = _draw(walls != 0, cell)
        room = MAX_KEPT - picture.nbytes
        while _drawn and sum(kept.nbytes for kept in _drawn.values()) > room:
            _drawn.popitem(last=False)
    _drawn[key] = picture
    return picture


def _draw(is_wall: Plane, cell: int) -> Picture:
    pixels = _floor(*is_wall.shape, cell).copy()
    solid = _enlarge(is_wall, cell)
    _cast_shadows(pixels, solid, cell)
    _draw_walls(pixels, is_wall, solid, cell)
    picture: Picture = np.clip(pixels + 0.5, 0, 255).astype(np.uint8)
    picture.flags.writeable = False
    return picture


@lru_cache(maxsize=2)
def _floor(height: int, width: int, cell: int) -> Plane:
    """Sand: a faint chequer that helps to count cells, and pebbles where there is room for them."""
    dice = np.random.default_rng(7)  # the same pebbles everywhere, so that a film does not flicker
    chequer = (np.add.outer(np.arange(height), np.arange(width)) % 2).astype(bool)
    colors = np.where(chequer[..., None], palette.SAND_SHADE, palette.SAND) + dice.normal(0, 1.6, (height, width, 1))
    pixels = _enlarge(colors.astype(np.float32), cell)
    if cell < FINE_CELL:
        return pixels
    side = max(1, cell // 14)
    for color in (palette.PEBBLE, palette.SAND_LIGHT):  # few and flat: grain in every pixel would bloat every video
        count = height * width // 2
        y, x = dice.integers(0, height * cell - side, count), dice.integers(0, width * cell - side, count)
        for down in range(side):
            for right in range(side):
                pixels[y + down, x + right] = color
    return pixels


def _cast_shadows(pixels: Plane, solid: Plane, cell: int) -> None:
    """Light comes from the north-west; what a wall keeps it from is darker, most of all near the wall."""
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
    """[height, width]: is the cell so far away a wall? Beyond the map everything is."""
    height, width = is_wall.shape
    padded = np.pad(is_wall, 1, constant_values=True)
    return padded[1 + down : 1 + down + height, 1 + right : 1 + right + width]


def _enlarge(plane: Plane, cell: int) -> Plane:
    return plane.repeat(cell, 0).repeat(cell, 1)
