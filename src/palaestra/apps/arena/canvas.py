"""A small canvas for sprites: shapes over a fine grid, averaged down to soft-edged pixels.

Lengths are parts of a cell: x goes right and y goes down, both from 0 to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.arena.palette import Color

    Mask = np.ndarray[Any, np.dtype[np.bool_]]  # [fine, fine]
    Floats = np.ndarray[Any, np.dtype[np.float32]]

FINENESS = 6  # points across a pixel


class Sprite(NamedTuple):
    """What is left of the ground below, and what comes on top: `ground * keep + color`."""

    keep: Floats  # [size, size, 1] from 0 to 1
    color: Floats  # [size, size, 3] from 0 to 255, plus the half that rounds


class Canvas:
    def __init__(self, size: int) -> None:
        self.size = size
        fine = size * FINENESS
        middle = (np.arange(fine, dtype=np.float32) + 0.5) / fine
        self.x, self.y = np.meshgrid(middle, middle)  # [fine, fine]
        self._layers = np.zeros((fine, fine, 4), np.float32)

    def paint(self, mask: Mask, color: Color, opacity: float = 1.0) -> None:
        """Lay a colour over what is there."""
        self._layers[mask] *= 1 - opacity
        self._layers[mask] += np.array([*(channel * opacity for channel in color), opacity], np.float32)

    def shade(self, mask: Mask, color: Color, share: float) -> None:
        """Tint only what is already painted."""
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
        """The part (0 to 1) of a ring that a clock's hand passes from the top on"""
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
        """What an odd number of edges lies to the right of"""
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
