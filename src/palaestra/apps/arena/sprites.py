"""Sprites of stations and agents, cached by size and state, and the anti-aliased canvas that they are painted on."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from palaestra.apps.arena import palette
from palaestra.apps.arena.tables import COOLING, EXHAUSTED, PRODUCT, STATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.arena.palette import Color

    Mask = np.ndarray[Any, np.dtype[np.bool_]]  # [fine, fine]
    Floats = np.ndarray[Any, np.dtype[np.float32]]


FINENESS = 6  # grid points per pixel and axis


class Sprite(NamedTuple):
    """An image with transparency, drawn as `ground * keep + color`."""

    keep: Floats  # [size, size, 1] from 0 to 1
    color: Floats  # [size, size, 3] from 0 to 255, plus 0.5 for rounding


class Canvas:
    def __init__(self, size: int) -> None:
        self.size = size
        fine = size * FINENESS
        middle = (np.arange(fine, dtype=np.float32) + 0.5) / fine
        self.x, self.y = np.meshgrid(middle, middle)  # [fine, fine]
        self._layers = np.zeros((fine, fine, 4), np.float32)

    def paint(self, mask: Mask, color: Color, opacity: float = 1.0) -> None:
        """Paints a colour over the existing ones."""
        self._layers[mask] *= 1 - opacity
        self._layers[mask] += np.array([*(channel * opacity for channel in color), opacity], np.float32)

    def shade(self, mask: Mask, color: Color, share: float) -> None:
        """Tints painted pixels only."""
        self.paint(mask & (self._layers[..., 3] > 0), color, share)

    def sprite(self) -> Sprite:
        blocks = self._layers.reshape(self.size, FINENESS, self.size, FINENESS, 4)
        averaged = blocks.mean((1, 3), dtype=np.float32)
        return Sprite(keep=1 - averaged[..., 3:], color=averaged[..., :3] + np.float32(0.5))

    def disc(self, x: float, y: float, radius: float) -> Mask:
        inside: Mask = (self.x - x) ** 2 + (self.y - y) ** 2 <= radius**2
        return inside

    def ring(self, x: float, y: float, radius: float, thickness: float) -> Mask:
        return self.disc(x, y, radius) & ~self.disc(x, y, radius - thickness)

    def arc(self, x: float, y: float, radius: float, thickness: float, part: float) -> Mask:
        """The fraction (0 to 1) of a ring, clockwise from the top."""
        turn = np.arctan2(self.x - x, y - self.y) / (2 * np.pi) % 1.0
        return self.ring(x, y, radius, thickness) & (turn <= part)

    def box(self, left: float, top: float, right: float, bottom: float, corner: float = 0.0) -> Mask:
        """A rectangle with round corners"""
        across = np.maximum(np.maximum(left + corner - self.x, self.x - right + corner), 0)
        down = np.maximum(np.maximum(top + corner - self.y, self.y - bottom + corner), 0)
        edges = (self.x >= left) & (self.x <= right) & (self.y >= top) & (self.y <= bottom)
        inside: Mask = edges & (across**2 + down**2 <= max(corner, 1e-6) ** 2)
        return inside

    def polygon(self, corners: Sequence[tuple[float, float]]) -> Mask:
        """The inside of a polygon: points with an odd number of edges to their right."""
        inside = np.zeros(self.x.shape, bool)
        for (x1, y1), (x2, y2) in zip(corners, [*corners[1:], corners[0]], strict=True):
            if y1 == y2:
                continue
            crosses = (self.y < y1) != (self.y < y2)
            inside ^= crosses & (self.x < (x2 - x1) * (self.y - y1) / (y2 - y1) + x1)
        return inside

    def heart(self, x: float, y: float, width: float) -> Mask:
        """Two discs and a tip"""
        radius = width * 0.275
        lobe = width * 0.225
        top = y - width * 0.16
        reach = width / 2 - width * 0.045
        tip = [(x - reach, top + radius * 0.55), (x + reach, top + radius * 0.55), (x, y + width * 0.47)]
        return self.disc(x - lobe, top, radius) | self.disc(x + lobe, top, radius) | self.polygon(tip)


CLOCK_MARKS = 8  # largest number of steps on a gauge
SMALL = 12  # pixels; smaller agents have a white tip instead of eyes
FACINGS = ((0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0))  # (dx, dy) by facing


@lru_cache(maxsize=512)
def station_sprite(size: int, kind: int, state: int, clock: int) -> Sprite:
    """`clock`: steps until the station is ready, at most CLOCK_MARKS; 0 unless cooling."""
    canvas = Canvas(size)
    name = STATIONS[kind]
    plinth = canvas.box(0.03, 0.03, 0.97, 0.97, 0.16)
    body = palette.STATION_COLORS[name]
    canvas.paint(plinth, palette.mix(body, palette.INK, 0.6))  # the front, below the top
    canvas.paint(canvas.box(0.03, 0.03, 0.97, 0.85, 0.16), body)
    canvas.paint(canvas.box(0.08, 0.03, 0.92, 0.09, 0.03), palette.mix(body, palette.WHITE, 0.3))
    PAINTERS[name](canvas)
    if state == COOLING:
        canvas.shade(plinth, palette.mix(body, palette.SHADOW, 0.6), 0.6)
    elif state == EXHAUSTED:
        canvas.shade(plinth, palette.ASH, 0.82)
        cross = canvas.polygon([(0.2, 0.27), (0.3, 0.17), (0.8, 0.64), (0.7, 0.74)])
        canvas.paint(cross | cross[:, ::-1], palette.mix(palette.ASH, palette.INK, 0.55))
    if state != EXHAUSTED:
        _paint_gauge(canvas, palette.ITEM_COLORS[PRODUCT[name]], 1 - clock / CLOCK_MARKS)
    return canvas.sprite()


def _paint_gauge(canvas: Canvas, color: palette.Color, filled: float) -> None:
    """A bar on the front that fills while the station cools down."""
    left, right = 0.14, 0.86
    canvas.paint(canvas.box(left, 0.87, right, 0.94, 0.03), palette.INK, 0.6)
    canvas.paint(canvas.box(left, 0.87, left + (right - left) * filled, 0.94, 0.03), color)


@lru_cache(maxsize=4096)
def agent_sprite(
    size: int, team: int, facing: int, is_frozen: bool, cargo: str, has_armour: bool, has_charge: bool
) -> Sprite:
    """`cargo`: the most valuable item that the agent carries: "", "ore", "battery" or "heart"."""
    canvas = Canvas(size)
    color = palette.TEAM_COLORS[team % len(palette.TEAM_COLORS)]
    outline = palette.mix(color, palette.INK, 0.66)
    canvas.paint(canvas.disc(0.54, 0.6, 0.4), palette.SHADOW, 0.28)
    canvas.paint(_ahead(canvas, facing, 0.49, 0.42 if has_charge else 0.3), outline)
    canvas.paint(canvas.disc(0.5, 0.5, 0.42), outline)
    if has_charge:  # the front glows
        canvas.paint(_ahead(canvas, facing, 0.46, 0.4), palette.CHARGE)
    if has_armour:
        canvas.paint(canvas.disc(0.5, 0.5, 0.42), palette.ARMOUR)
        canvas.paint(canvas.disc(0.5, 0.5, 0.375), outline)
    canvas.paint(canvas.disc(0.5, 0.5, 0.345 if has_armour else 0.37), color)
    canvas.paint(canvas.disc(0.45, 0.43, 0.25), palette.mix(color, palette.WHITE, 0.16))
    if size < SMALL:
        canvas.paint(_ahead(canvas, facing, 0.42, 0.26), palette.WHITE)
    else:
        _paint_eyes(canvas, facing)
    _paint_cargo(canvas, facing, cargo)
    if is_frozen:
        _paint_ice(canvas)
    return canvas.sprite()


def _ahead(canvas: Canvas, facing: int, reach: float, half: float) -> Mask:
    """A triangular tip in the direction of facing."""
    dx, dy = FACINGS[facing]
    point = (0.5 + dx * reach, 0.5 + dy * reach)
    left = (0.5 + dx * 0.2 - dy * half, 0.5 + dy * 0.2 + dx * half)
    right = (0.5 + dx * 0.2 + dy * half, 0.5 + dy * 0.2 - dx * half)
    return canvas.polygon([point, left, right])


def _paint_eyes(canvas: Canvas, facing: int) -> None:
    dx, dy = FACINGS[facing]
    for side in (-1, 1):
        x, y = 0.5 + dx * 0.2 - side * dy * 0.155, 0.5 + dy * 0.2 + side * dx * 0.155
        canvas.paint(canvas.disc(x, y, 0.115), palette.WHITE)
        canvas.paint(canvas.disc(x + dx * 0.035, y + dy * 0.035, 0.06), palette.INK)


def _paint_cargo(canvas: Canvas, facing: int, cargo: str) -> None:
    """The carried item, on the agent's back."""
    if not cargo:
        return
    dx, dy = FACINGS[facing]
    x, y = 0.5 - dx * 0.17, 0.5 - dy * 0.17
    if cargo == "heart":
        canvas.paint(canvas.heart(x, y, 0.54), palette.WHITE)
        canvas.paint(canvas.heart(x, y, 0.42), palette.HEART)
        return
    canvas.paint(canvas.disc(x, y, 0.175), palette.INK, 0.75)
    canvas.paint(canvas.disc(x, y, 0.13), palette.ITEM_COLORS[cargo])


def _paint_ice(canvas: Canvas) -> None:
    block = canvas.box(0.03, 0.03, 0.97, 0.97, 0.16)
    canvas.paint(block, palette.ICE, 0.48)
    canvas.paint(block & ~canvas.box(0.09, 0.09, 0.91, 0.91, 0.12), palette.ICE_EDGE)
    for offset in (0.0, 0.17):
        glint = [(0.16 + offset, 0.4), (0.4 + offset, 0.14), (0.47 + offset, 0.14), (0.16 + offset, 0.48)]
        canvas.paint(canvas.polygon(glint) & block, palette.WHITE, 0.85)


def _paint_mine(canvas: Canvas) -> None:
    """Crystals in dark rock"""
    canvas.paint(canvas.polygon([(0.1, 0.8), (0.2, 0.42), (0.5, 0.22), (0.82, 0.44), (0.9, 0.8)]), (62, 47, 40))
    dark, light = palette.mix(palette.ORE, palette.INK, 0.35), palette.mix(palette.ORE, palette.WHITE, 0.45)
    for x, foot, top, half in ((0.3, 0.74, 0.4, 0.1), (0.68, 0.76, 0.34, 0.11), (0.49, 0.78, 0.14, 0.13)):
        shoulder = top + 0.14
        canvas.paint(
            canvas.polygon(
                [(x, top), (x + half, shoulder), (x + half * 0.7, foot), (x - half * 0.7, foot), (x - half, shoulder)]
            ),
            palette.ORE,
        )
        canvas.paint(canvas.polygon([(x, top), (x + half, shoulder), (x + half * 0.7, foot), (x, foot)]), dark)
        canvas.paint(canvas.polygon([(x, top), (x - half, shoulder), (x - half * 0.4, shoulder)]), light)


def _paint_generator(canvas: Canvas) -> None:
    """A bolt of lightning in a dial"""
    canvas.paint(canvas.disc(0.5, 0.46, 0.36), palette.mix(palette.STATION_COLORS["generator"], palette.INK, 0.4))
    canvas.paint(
        canvas.polygon([(0.58, 0.1), (0.26, 0.52), (0.46, 0.52), (0.38, 0.84), (0.74, 0.38), (0.53, 0.38)]),
        palette.BATTERY,
    )


def _paint_altar(canvas: Canvas) -> None:
    """A heart on marble"""
    canvas.paint(canvas.heart(0.5, 0.48, 0.74), palette.mix(palette.HEART, palette.INK, 0.3))
    canvas.paint(canvas.heart(0.5, 0.46, 0.66), palette.HEART)
    canvas.paint(canvas.disc(0.36, 0.34, 0.065), palette.WHITE, 0.8)


def _paint_armoury(canvas: Canvas) -> None:
    """A shield"""
    outer = [(0.5, 0.1), (0.82, 0.2), (0.8, 0.5), (0.68, 0.7), (0.5, 0.84), (0.32, 0.7), (0.2, 0.5), (0.18, 0.2)]
    inner = [(0.5 + (x - 0.5) * 0.76, 0.46 + (y - 0.46) * 0.76) for x, y in outer]
    canvas.paint(canvas.polygon(outer), palette.WHITE)
    canvas.paint(canvas.polygon(inner), palette.STATION_COLORS["armoury"])
    canvas.paint(canvas.polygon(inner) & (canvas.x > 0.5), palette.ARMOUR)
    canvas.paint(canvas.polygon(inner) & (canvas.x <= 0.5), palette.mix(palette.ARMOUR, palette.INK, 0.3))


def _paint_charger(canvas: Canvas) -> None:
    """A star of four points"""
    star = [(0.5, 0.04), (0.6, 0.36), (0.92, 0.46), (0.6, 0.56), (0.5, 0.88), (0.4, 0.56), (0.08, 0.46), (0.4, 0.36)]
    canvas.paint(canvas.disc(0.5, 0.46, 0.3), palette.mix(palette.STATION_COLORS["charger"], palette.INK, 0.5))
    canvas.paint(canvas.polygon(star), palette.CHARGE)
    canvas.paint(canvas.disc(0.5, 0.46, 0.12), palette.WHITE)


PAINTERS = {
    "mine": _paint_mine,
    "generator": _paint_generator,
    "altar": _paint_altar,
    "armoury": _paint_armoury,
    "charger": _paint_charger,
}
