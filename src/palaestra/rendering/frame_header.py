"""What stands in a slot beside a picture, so that picture and numbers are never torn apart."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Union

from .layout import MAX_SIDE

FRAME_HEADER = struct.Struct("<QHHIIIQQQddd")
PIXELS, STATE = 1, 2  # [height, width, 3] bytes; or a message that the browser draws by itself
CHANNELS = 3

Payload = Union[bytes, memoryview]  # noqa: UP007  of single bytes; Python 3.8 has no `|` for types


@dataclass(frozen=True)
class Numbers:
    """How an environment stands in the very step that the picture shows."""

    env_step: int  # steps that this environment has taken since its process began
    reward: float  # of the last step; 0 where an episode begins
    total_reward: float  # of the episode so far
    length: int  # steps of the episode so far


@dataclass(frozen=True)
class FrameHeader:
    sequence: int  # counts the frames of a slot, from 1
    kind: int  # PIXELS or STATE
    width: int  # 0 for a state
    height: int
    size: int  # bytes
    captured_at: float  # seconds since 1970
    numbers: Numbers

    def pack(self, payload: Payload) -> bytes:
        return self._packed(self._checksum(payload))

    def fits(self, payload: bytes, checksum: int) -> bool:
        return len(payload) == self.size and self._checksum(payload) == checksum

    def _checksum(self, payload: Payload) -> int:
        return zlib.crc32(self._packed(0), zlib.crc32(payload))

    def _packed(self, checksum: int) -> bytes:
        channels = CHANNELS if self.kind == PIXELS else 0
        ours = self.numbers
        return FRAME_HEADER.pack(
            *(self.sequence, self.kind, channels, self.width, self.height, checksum),
            *(self.size, ours.env_step, ours.length, self.captured_at, ours.reward, ours.total_reward),
        )


def unpack_frame_header(data: bytes, capacity: int) -> tuple[FrameHeader, int] | str:
    """The note and the checksum of it and its picture; or, in a word, why it cannot be one."""
    sequence, kind, channels, width, height, checksum, size, env_step, length, *figures = FRAME_HEADER.unpack_from(data)
    if kind not in {PIXELS, STATE}:
        return "kind"
    if size > capacity:
        return "size"
    if kind == PIXELS:
        if channels != CHANNELS or not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
            return "shape"
        if width * height * channels != size:
            return "size"
    captured_at, reward, total_reward = figures
    numbers = Numbers(env_step, reward, total_reward, length)
    return FrameHeader(sequence, kind, width, height, size, captured_at, numbers), checksum
