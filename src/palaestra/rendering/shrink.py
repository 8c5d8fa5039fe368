"""Images made small enough to send. Pillow does it well; without it whole pixels are left out."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]
else:
    Pixels = np.ndarray  # Python 3.8 cannot subscript it


@cache
def _pillow() -> Any:
    """The module that resizes; None where Pillow is not installed."""
    return importlib.import_module("PIL.Image") if importlib.util.find_spec("PIL") is not None else None


def shrink(pixels: Pixels, largest_side: int) -> Pixels:
    """No side longer than `largest_side`, in its own proportions; a small image stays as it is."""
    height, width = pixels.shape[:2]
    longest = max(height, width)
    if longest <= largest_side:
        return pixels
    pillow = _pillow()
    if pillow is None:
        return _thinned(pixels, -(-longest // largest_side))
    image = pillow.fromarray(_thinned(pixels, longest // (2 * largest_side)))
    scale = largest_side / longest
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(image.resize(size, pillow.Resampling.BOX, reducing_gap=1.0))


def shrink_roughly(pixels: Pixels, side: int) -> Pixels:
    """From two thirds of `side` to one and a half of it, by averaging a few pixels of every block.

    That takes a sixth of the time of `shrink`; whoever shows it brings it to size.
    """
    times = round(max(pixels.shape[:2]) / side)
    if times < 2:
        return pixels
    half = times // 2
    small = _average(_thinned(pixels, times), _thinned(pixels[half:, half:], times))
    if times == 2:  # two of its four pixels, on a diagonal: all four would take twice the time
        return small
    return _average(small, _average(_thinned(pixels[half:], times), _thinned(pixels[:, half:], times)))


def fit(pixels: Pixels, requested_side: int, largest_side: int) -> Pixels:
    """About as large as viewers request (0: as rendered), and never larger than a frame buffer takes."""
    return shrink(shrink_roughly(pixels, requested_side or largest_side), largest_side)


def _thinned(pixels: Pixels, times: int) -> Pixels:
    """Only every n-th pixel."""
    if times < 2:
        return pixels
    kept = pixels[::times, ::times]
    thin = np.empty(kept.shape, np.uint8)
    for channel in range(kept.shape[2]):  # four times as fast as one copy, whose inner loop is three bytes long
        thin[..., channel] = kept[..., channel]
    return thin


def _average(one: Pixels, other: Pixels) -> Pixels:
    """In place, rounded down, without widening the numbers; of what both have, where blocks are cut at the edge."""
    height, width = min(one.shape[0], other.shape[0]), min(one.shape[1], other.shape[1])
    one, other = one[:height, :width], other[:height, :width]
    half_difference = one ^ other
    half_difference >>= 1
    one &= other
    one += half_difference
    return one
