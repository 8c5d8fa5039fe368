"""Where every byte of a frame buffer lies. docs/live.md draws it.

A frame buffer is one file: a *head* (one page about the buffer, then an entry per slot), which the writer maps and
which is reserved when the buffer is made; behind it the *images*, two per slot, which take up memory only once they are
written. Numbers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

MAGIC = b"PALANE\x00\x01"
VERSION = 1
PAGE = 4096
MAX_SLOTS = 1024
MAX_SIDE = 4096  # pixels of a picture in a frame buffer
MAX_CAPACITY = MAX_SIDE * MAX_SIDE * 3

ABOUT_AT, DEMAND_AT, HEARTBEAT_AT, SLOTS_AT = 0, 512, 1024, PAGE
SLOT_BYTES = 256
HEADER_AT = (32, 128)  # within a slot's entry, whose first word says which of the two counts

ABOUT = struct.Struct("<8sIIQIxxxxdd")  # magic, version, slots, capacity, owner's pid and start, made at
CHECK = struct.Struct("<I")  # crc-32 of what stands before it
SEQUENCE = struct.Struct("<Q")


@dataclass(frozen=True)
class About:
    """What a frame buffer says of itself; it never changes."""

    slot_count: int
    capacity: int  # bytes that one picture or message may have
    owner_pid: int
    owner_started_at: float  # as palaestra.runs.processes gives it
    made_at: float  # seconds since 1970

    @property
    def head_bytes(self) -> int:
        return _whole_pages(SLOTS_AT + SLOT_BYTES * self.slot_count)

    @property
    def file_bytes(self) -> int:
        return self.image_at(self.slot_count, 0)

    def slot_at(self, slot: int) -> int:
        return SLOTS_AT + SLOT_BYTES * slot

    def image_at(self, slot: int, place: int) -> int:
        return self.head_bytes + (2 * slot + place) * _whole_pages(self.capacity)

    def pack(self) -> bytes:
        return checked(
            ABOUT.pack(
                MAGIC,
                VERSION,
                self.slot_count,
                self.capacity,
                self.owner_pid,
                self.owner_started_at,
                self.made_at,
            )
        )


def unpack_about(data: bytes) -> About | str:
    """What stands at the beginning of a file, or why it is no frame buffer of ours."""
    if len(data) < ABOUT.size + CHECK.size:
        return f"it has only {len(data)} bytes"
    magic, version, slots, capacity, pid, started_at, made_at = ABOUT.unpack_from(data)
    if magic != MAGIC:
        return f"it begins with {magic!r} instead of {MAGIC!r}"
    if version != VERSION:
        return f"it has version {version}, and this Palaestra reads {VERSION}"
    if unchecked(data, ABOUT.size) is None:
        return "its head does not have the checksum that it should have"
    if not 1 <= slots <= MAX_SLOTS:
        return f"it has {slots} slots, and 1 to {MAX_SLOTS} are possible"
    if not 1 <= capacity <= MAX_CAPACITY:
        return f"it has room for {capacity} bytes a picture, and 1 to {MAX_CAPACITY} are possible"
    return About(slots, capacity, pid, started_at, made_at)


def checked(data: bytes) -> bytes:
    return data + CHECK.pack(zlib.crc32(data))


def unchecked(data: bytes, size: int) -> bytes | None:
    """The first `size` bytes, when the checksum behind them is theirs."""
    body = data[:size]
    return body if data[size : size + CHECK.size] == CHECK.pack(zlib.crc32(body)) else None


def _whole_pages(size: int) -> int:
    return -(-size // PAGE) * PAGE
