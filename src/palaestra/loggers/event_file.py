"""TensorBoard's record format, appended in this thread.

Tensorboard's own EventFileWriter was tried and left: its thread prints a traceback of its own when the disk is
full, its queue blocks the caller when it is, and its checksum costs 0.3 µs a byte under the same interpreter
lock. Here an error is raised where it can be caught, and a record costs a few µs.
"""

from __future__ import annotations

from functools import cache, lru_cache
from struct import pack
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from palaestra.loggers.event_points import AlikePoints

CASTAGNOLI_REVERSED = 0x82F63B78
ALL_ONES = 0xFFFFFFFF
MASK_DELTA = 0xA282EAD8  # TFRecord checksums are rotated and shifted, so that a checksum of a checksum is harmless
WAITING_EVENTS = 256  # that are framed and written at once
CHECKSUM_BYTES = 4
SHORT, LONG = 16, 1024  # bytes between which looking all of them up at once is worth it


def masked_crc32c(records: Sequence[bytes]) -> list[int]:
    """Checksums of records of one length."""
    size = len(records[0])
    checksums = _all_at_once(records, size) if SHORT < size <= LONG else [_byte_by_byte(record) for record in records]
    return [(((checksum >> 15) | (checksum << 17)) + MASK_DELTA) & ALL_ONES for checksum in checksums]


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (CASTAGNOLI_REVERSED if byte & 1 else 0)
    return byte


_TABLE = tuple(_table_entry(byte) for byte in range(256))


def _byte_by_byte(record: bytes) -> int:
    checksum = ALL_ONES
    for byte in record:
        checksum = _TABLE[(checksum ^ byte) & 0xFF] ^ (checksum >> 8)
    return checksum ^ ALL_ONES


def _all_at_once(records: Sequence[bytes], size: int) -> list[int]:
    """A checksum is linear: each byte adds a value that depends only on itself and its distance from the end."""
    bytes_seen = np.frombuffer(b"".join(records), np.uint8).reshape(len(records), size).astype(np.intp)
    bytes_seen[:, :4] ^= 0xFF  # the initial value, all ones
    distances = np.arange(size - 1, -1, -1)
    added = _table_for(size)[distances, bytes_seen]  # [records, size]
    checksums: list[int] = (np.bitwise_xor.reduce(added, axis=1) ^ np.uint32(ALL_ONES)).tolist()
    return checksums


def _table_for(size: int) -> NDArray[np.uint32]:
    """Records of nearly one length share it."""
    return _table_by_distance(1 << size.bit_length())


@cache
def _table_by_distance(rows: int) -> NDArray[np.uint32]:
    """[rows, 256]: what a byte adds when so many follow it. Few rows if they do: each takes ten µs of a start."""
    table = np.empty((rows, 256), np.uint32)
    first = np.array(_TABLE, np.uint32)
    table[0] = first
    for distance in range(1, rows):
        before = table[distance - 1]
        table[distance] = first[before & 0xFF] ^ (before >> 8)
    return table


@cache
def _length_frame(size: int) -> bytes:
    length = pack("<Q", size)
    return length + pack("<I", masked_crc32c([length])[0])


class EventFile:
    """Records in a new file. A file that is already there is never touched."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")
        self._waiting: list[bytes] = []

    def append(self, *events: bytes) -> None:
        """Serialised `Event`s, in this order. They wait for each other: many of one length cost little more than one"""
        self._waiting += events
        if len(self._waiting) >= WAITING_EVENTS:
            self._write()

    def append_alike(self, points: AlikePoints) -> None:
        """Many events at once; behind those that wait."""
        self._write()
        self._file.write(framed_alike(points))

    def flush(self) -> None:
        self._write()
        self._file.flush()

    def close(self) -> None:
        """Also after a write that failed: then without what waited."""
        try:
            self._write()
        finally:
            self._file.close()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._file.write(b"".join(framed(waiting)))


def framed_alike(points: AlikePoints) -> bytes:
    """As `framed` does it with each by itself. A checksum is linear: only bytes that differ have to be looked up."""
    common, places = points.form.common, np.array(points.form.places)
    frame, table = _length_frame(len(common)), _table_for(len(common))
    bytes_seen = points.bytes_that_differ()  # [events, places]
    added = table[len(common) - 1 - places, bytes_seen ^ np.frombuffer(common, np.uint8)[places]]
    checksums = np.bitwise_xor.reduce(added, axis=1) ^ np.uint32(_checksum(common))
    masked = ((checksums >> 15) | (checksums << 17)) + np.uint32(MASK_DELTA)
    records = np.tile(np.frombuffer(frame + common + bytes(CHECKSUM_BYTES), np.uint8), (len(bytes_seen), 1))
    records[:, len(frame) + places] = bytes_seen
    records[:, -CHECKSUM_BYTES:] = masked.astype("<u4").view(np.uint8).reshape(-1, CHECKSUM_BYTES)
    return records.tobytes()


@lru_cache(maxsize=256)
def _checksum(common: bytes) -> int:
    return _byte_by_byte(common)


def framed(events: Sequence[bytes]) -> list[bytes]:
    """Each with its length and the checksums of both, in the same order."""
    places: dict[int, list[int]] = {}
    for place, event in enumerate(events):
        places.setdefault(len(event), []).append(place)
    records = list(events)
    for size, own in places.items():
        frame = _length_frame(size)
        for place, checksum in zip(own, masked_crc32c([events[place] for place in own]), strict=True):
            records[place] = frame + events[place] + pack("<I", checksum)
    return records
