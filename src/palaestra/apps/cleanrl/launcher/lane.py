"""The writer's end of a lane for live pictures, as docs/live.md draws it, with nothing but NumPy.

`palaestra.frames` has the same for our own trainer; the lane is made and removed by our side.
"""

from __future__ import annotations

import errno
import mmap
import os
import socket
import struct
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

MAGIC, VERSION, PAGE = b"PALANE\x00\x01", 1, 4096
DEMAND_AT, BEAT_AT, SLOT_BYTES = 512, 1024, 256
NOTE_AT = (32, 128)
ABOUT = struct.Struct("<8sIIQIxxxxdd")  # magic, version, slots, capacity, owner's pid and start, made at
DEMAND = struct.Struct("<QdIxxxxQQ128s")  # lease, frames a second, largest side, bell, ticket, wanted slots
BEAT = struct.Struct("<dQQQddI256s")  # at, steps, episodes, frames, seconds spent and watched, condition, reason
NOTE = struct.Struct("<QHHIIIQQQddd")
RING = struct.Struct("<QI")
CHECK = struct.Struct("<I")
SEQUENCE = struct.Struct("<Q")
PIXELS, CHANNELS = 1, 3
LONGEST_LEASE = 10.0  # seconds; one that lasts longer comes from another clock
FASTEST = 60.0
OPEN, FAILED = 0, 2  # conditions in a beat


class NoLane(OSError):
    """Not there yet, or not one of ours."""


class Demand(NamedTuple):
    frames_per_second: float
    largest_side: int  # pixels; 0: as drawn
    mask: int  # a bit for each wanted slot
    bell: int
    ticket: int


class Numbers(NamedTuple):
    env_step: int
    reward: float
    total_reward: float
    length: int


class Lane:
    """Each slot has one writer; several processes may each write slots of their own."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        data = os.pread(self._descriptor, ABOUT.size, 0)
        magic, version, *_ = ABOUT.unpack(data) if len(data) == ABOUT.size else (b"", 0)
        if magic != MAGIC or version != VERSION:
            os.close(self._descriptor)
            raise NoLane(errno.EINVAL, "it is no lane of this version")
        _, _, self.slot_count, self.capacity, *_ = ABOUT.unpack(data)
        self._head_bytes = whole_pages(PAGE + SLOT_BYTES * self.slot_count)
        self._head = mmap.mmap(self._descriptor, self._head_bytes)
        self._bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._bell.settimeout(0)
        self.frames = 0

    def demand(self, now: float) -> Demand | None:
        """None when nobody watches, or the wish is just being written."""
        (lease,) = SEQUENCE.unpack_from(self._head, DEMAND_AT)
        if not 0 < lease / 1e9 - now <= LONGEST_LEASE:
            return None
        data = self._head[DEMAND_AT : DEMAND_AT + DEMAND.size]
        if CHECK.unpack_from(self._head, DEMAND_AT + DEMAND.size)[0] != zlib.crc32(data):
            return None
        _, rate, side, bell, ticket, mask = DEMAND.unpack(data)
        if not 0 < rate < float("inf"):
            return None
        return Demand(min(rate, FASTEST), side, int.from_bytes(mask, "little"), bell, ticket)

    @property
    def largest_side(self) -> int:
        """Of a square that there is room for, in pixels."""
        return int((self.capacity / CHANNELS) ** 0.5)

    def write(self, slot: int, picture: Any, numbers: Numbers, at: float | None = None) -> None:
        """[height, width, 3] bytes, as it was `at` (now); OSError when there is no room for it."""
        payload = picture.tobytes()
        if len(payload) > self.capacity:
            raise OSError(errno.EFBIG, f"{len(payload)} bytes do not fit into {self.capacity}")
        entry = PAGE + SLOT_BYTES * slot
        sequence = SEQUENCE.unpack_from(self._head, entry)[0] + 1
        place = sequence & 1
        SEQUENCE.pack_into(self._head, entry + NOTE_AT[place], 0)  # this place is being written
        offset = self._head_bytes + (2 * slot + place) * whole_pages(self.capacity)
        if os.pwrite(self._descriptor, payload, offset) != len(payload):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        note = _note(sequence, picture, payload, numbers, time.time() if at is None else at)
        self._head[entry + NOTE_AT[place] : entry + NOTE_AT[place] + len(note)] = note
        # In one copy. `pack_into` writes zeros first: killed after that, the slot would have no frame at all.
        self._head[entry : entry + SEQUENCE.size] = SEQUENCE.pack(sequence)
        self.frames += 1

    def ring(self, demand: Demand, slot: int) -> None:
        """It never waits; where nobody hears it, that is all."""
        try:
            self._bell.sendto(RING.pack(demand.ticket, slot), b"\x00palaestra-bell-%016x" % demand.bell)
        except OSError:
            return

    def beat(self, steps: int, episodes: int, spent: float, watched: float, reason: str = "") -> None:
        """A reason says that the live view has failed."""
        condition = FAILED if reason else OPEN
        figures = (time.monotonic(), max(0, steps), episodes, self.frames, spent, watched, condition)
        packed = BEAT.pack(*figures, reason.encode()[:256])
        packed += CHECK.pack(zlib.crc32(packed))
        self._head[BEAT_AT : BEAT_AT + len(packed)] = packed

    def close(self) -> None:
        self._bell.close()
        self._head.close()
        os.close(self._descriptor)


def _note(sequence: int, picture: Any, payload: bytes, numbers: Numbers, at: float) -> bytes:
    """Picture and numbers have one checksum: they are never torn apart."""
    height, width = picture.shape[:2]
    step, reward, total, length = numbers
    front = (sequence, PIXELS, CHANNELS, width, height)
    back = (len(payload), step, length, at, reward, total)
    return NOTE.pack(*front, zlib.crc32(NOTE.pack(*front, 0, *back), zlib.crc32(payload)), *back)


def whole_pages(size: int) -> int:
    return -(-size // PAGE) * PAGE
