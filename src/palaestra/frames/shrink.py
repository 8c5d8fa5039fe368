"""Pictures made small enough to travel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.contracts.later import later

if TYPE_CHECKING:
    from PIL import Image
else:
    Image = later("PIL.Image")

Picture = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]


def shrink(picture: Picture, largest_side: int) -> Picture:
    """No side longer than `largest_side`, in its own proportions; a small picture stays as it is."""
    height, width = picture.shape[:2]
    longest = max(height, width)
    if longest <= largest_side:
        return picture
    image = Image.fromarray(_thinned(picture, longest // (2 * largest_side)))
    scale = largest_side / longest
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(image.resize(size, Image.Resampling.BOX, reducing_gap=1.0))


def shrink_roughly(picture: Picture, side: int) -> Picture:
    """From two thirds of `side` to one and a half of it, by making one pixel of a whole number of them.

    That takes a third of the time of `shrink`; whoever shows it brings it to size.
    """
    times = round(max(picture.shape[:2]) / side)
    if times < 2:
        return picture
    thin = max(1, times // 2)
    image = Image.fromarray(_thinned(picture, thin))
    return np.asarray(image.reduce(max(1, round(times / thin))))


def _thinned(picture: Picture, times: int) -> Picture:
    """Of huge pictures only every n-th pixel is looked at: the rest would be averaged away."""
    return picture if times < 2 else np.ascontiguousarray(picture[::times, ::times])
