"""Shrinks images and encodes frames for browsers. Without Pillow, shrinking drops whole pixels."""

from __future__ import annotations

import importlib
import importlib.util
import io
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # [height, width, 3]
    from .frame_reader import Frame
else:
    Pixels = np.ndarray  # Python 3.8 cannot subscript it


@cache
def _pillow() -> Any:
    """The module that resizes; None where Pillow is not installed."""
    return importlib.import_module("PIL.Image") if importlib.util.find_spec("PIL") is not None else None


def shrink(pixels: Pixels, largest_side: int) -> Pixels:
    """Shrinks to sides of at most `largest_side`, keeping the aspect ratio; a small image is returned unchanged."""
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
    """Shrinks to between two thirds and one and a half of `side`, by averaging a few pixels of every block.

    That takes a sixth of the time of `shrink`; the viewer scales the result.
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
    """The mean, rounded down, in place and in uint8; cropped to the smaller of the two shapes."""
    height, width = min(one.shape[0], other.shape[0]), min(one.shape[1], other.shape[1])
    one, other = one[:height, :width], other[:height, :width]
    half_difference = one ^ other
    half_difference >>= 1
    one &= other
    one += half_difference
    return one


MAGIC, VERSION = b"PF", 1
JPEG, STATE = 1, 2
MESSAGE = struct.Struct("<2sBBHHHxxxxxxQQQddd")
FULL_COLOUR_SIDE = 320  # pixels; in small images a single pixel may matter, so its colour is kept
EVERY_PIXEL, EVERY_FOURTH = 0, 2  # Pillow's chroma subsampling


def encode(frame: Frame, largest_side: int, quality: int) -> bytes:
    """A message for a browser: 64 bytes of header, then a JPEG or a state; see docs/live.md.

    `largest_side`: pixels. `quality`: of the JPEG, 1 to 95.
    """
    if not frame.is_image:
        return _header(frame, STATE, 0, 0) + frame.payload
    pixels = np.frombuffer(frame.payload, np.uint8).reshape(frame.header.height, frame.header.width, 3)
    image = shrink(pixels, largest_side)
    height, width = image.shape[:2]
    return _header(frame, JPEG, width, height) + jpeg(image, quality)


def jpeg(pixels: Pixels, quality: int) -> bytes:
    colours = EVERY_PIXEL if max(pixels.shape) <= FULL_COLOUR_SIDE else EVERY_FOURTH
    stream = io.BytesIO()
    pillow = importlib.import_module("PIL.Image")
    pillow.fromarray(pixels).save(stream, "JPEG", quality=quality, subsampling=colours)
    return stream.getvalue()


def _header(frame: Frame, codec: int, width: int, height: int) -> bytes:
    numbers = frame.numbers
    return MESSAGE.pack(
        *(MAGIC, VERSION, codec, frame.slot, width, height),
        *(
            frame.sequence,
            numbers.env_step,
            numbers.length,
            frame.header.captured_at,
            numbers.reward,
            numbers.total_reward,
        ),
    )
