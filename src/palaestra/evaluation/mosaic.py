"""Several pictures as one: tiles of one size, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Picture = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]

LARGEST = (1080, 1920)  # height and width of a mosaic; tiles are shrunk to fit
GROUND = 24  # shade of what is not covered by a picture
GAP = 4  # pixels between tiles
DIMMED = 0.45


@dataclass(frozen=True)
class Mosaic:
    rows: int
    columns: int
    height: int  # of a tile
    width: int

    def compose(self, tiles: Sequence[Picture]) -> Picture:
        """Tiles [height, width, 3] from the upper left, row by row; places without one stay empty."""
        whole = self._empty()
        for index, tile in enumerate(tiles):
            row, column = divmod(index, self.columns)
            top, left = row * (self.height + GAP), column * (self.width + GAP)
            whole[top : top + self.height, left : left + self.width] = tile
        return whole

    def fit(self, picture: Picture) -> Picture:
        """As large as fits into a tile, in its own proportions, in the middle of it."""
        scaled = _scaled(picture, min(self.height / picture.shape[0], self.width / picture.shape[1]))
        height, width = scaled.shape[:2]
        if (height, width) == (self.height, self.width):
            return scaled
        tile = np.full((self.height, self.width, 3), GROUND, np.uint8)
        top, left = (self.height - height) // 2, (self.width - width) // 2
        tile[top : top + height, left : left + width] = scaled
        return tile

    def _empty(self) -> Picture:
        height = self.rows * self.height + (self.rows - 1) * GAP
        width = self.columns * self.width + (self.columns - 1) * GAP
        return np.full((height, width, 3), GROUND, np.uint8)


def mosaic_for(count: int, picture: Picture) -> Mosaic:
    """Nearly as many rows as columns; tiles of the picture's size, or smaller where the whole would be too large."""
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    height, width = picture.shape[:2]
    room = ((LARGEST[0] - (rows - 1) * GAP) / rows, (LARGEST[1] - (columns - 1) * GAP) / columns)
    scale = min(1.0, room[0] / height, room[1] / width)
    return Mosaic(rows, columns, max(1, int(height * scale)), max(1, int(width * scale)))


def dim(picture: Picture) -> Picture:
    """What has ended."""
    darker: Picture = (picture * np.float32(DIMMED)).astype(np.uint8)
    return darker


def _scaled(picture: Picture, scale: float) -> Picture:
    """Enlarged by whole numbers only, so that a pixel stays a square; shrunk by averaging what falls together."""
    if scale >= 1:
        times = int(scale)
        return picture if times == 1 else picture.repeat(times, axis=0).repeat(times, axis=1)
    height, width = (max(1, int(side * scale + 1e-9)) for side in picture.shape[:2])
    down, across = _averages(picture.shape[0], height), _averages(picture.shape[1], width)
    rows = np.tensordot(down, picture.astype(np.float32), axes=(1, 0))  # [height, old width, 3]
    shrunk = np.tensordot(rows, across, axes=(1, 1)).transpose(0, 2, 1)  # [height, width, 3]
    return np.ascontiguousarray(np.rint(shrunk).astype(np.uint8))


@lru_cache(maxsize=16)
def _averages(before: int, after: int) -> NDArray[np.float32]:
    """[after, before] which share of each old pixel falls into each new one; a row's sum is 1."""
    edges = np.arange(after + 1) * (before / after)
    starts = np.arange(before)
    overlap = np.minimum(edges[1:, None], starts + 1) - np.maximum(edges[:-1, None], starts)
    shares = np.clip(overlap, 0, None)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True), np.float32)
