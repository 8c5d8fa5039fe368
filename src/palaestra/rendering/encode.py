"""A frame as one message for a browser: 64 bytes that say what it is, then a JPEG or a state. See docs/live.md."""

from __future__ import annotations

import importlib
import io
import struct
from typing import TYPE_CHECKING

import numpy as np

from .shrink import shrink

if TYPE_CHECKING:
    from .frame_reader import Frame
    from .shrink import Pixels

MAGIC, VERSION = b"PF", 1
JPEG, STATE = 1, 2
MESSAGE = struct.Struct("<2sBBHHHxxxxxxQQQddd")
FULL_COLOUR_SIDE = 320  # pixels; in small pictures a single one may be a thing, and keeps its own colour
EVERY_PIXEL, EVERY_FOURTH = 0, 2  # how many colours are kept, in Pillow's numbers


def encode(frame: Frame, largest_side: int, quality: int) -> bytes:
    """`largest_side`: pixels. `quality`: of the JPEG, 1 to 95. A state is sent as it is."""
    if not frame.is_image:
        return _header(frame, STATE, 0, 0) + frame.payload
    pixels = np.frombuffer(frame.payload, np.uint8).reshape(frame.note.height, frame.note.width, 3)
    picture = shrink(pixels, largest_side)
    height, width = picture.shape[:2]
    return _header(frame, JPEG, width, height) + jpeg(picture, quality)


def jpeg(picture: Pixels, quality: int) -> bytes:
    colours = EVERY_PIXEL if max(picture.shape) <= FULL_COLOUR_SIDE else EVERY_FOURTH
    stream = io.BytesIO()
    pillow = importlib.import_module("PIL.Image")
    pillow.fromarray(picture).save(stream, "JPEG", quality=quality, subsampling=colours)
    return stream.getvalue()


def _header(frame: Frame, codec: int, width: int, height: int) -> bytes:
    ours = frame.numbers
    return MESSAGE.pack(
        *(MAGIC, VERSION, codec, frame.slot, width, height),
        *(frame.sequence, ours.env_step, ours.length, frame.note.captured_at, ours.reward, ours.total_reward),
    )
