"""TensorBoard's record format, appended in this thread.

Tensorboard's own EventFileWriter was tried and left: its thread prints a traceback of its own when the disk is
full, its queue blocks the caller when it is, and its checksum costs 0.3 µs a byte under the same interpreter
lock. Here an error is raised where it can be caught, and a record costs a few µs.
"""

from __future__ import annotations

from functools import cache
from struct import pack
from typing import TYPE_CHECKING

import numpy as np

from palaestra.sinks.event_messages import SCALAR_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

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

    def append_alike(self, common: bytes, places: Sequence[int], columns: Sequence[Sequence[float]]) -> None:
        """Many events at once that differ only in the floats at `places`; behind those that wait."""
        self._write()
        self._file.write(framed_alike(common, places, columns))

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


def framed_alike(common: bytes, places: Sequence[int], columns: Sequence[Sequence[float]]) -> bytes:
    """Records that differ only in the four bytes of a float at each place: all at once, in the order of the columns.

    A checksum is linear, so only the bytes that differ have to be looked up.
    """
    size, count = len(common), len(columns[0])
    frame = _length_frame(size)
    record = np.frombuffer(frame + common + bytes(CHECKSUM_BYTES), np.uint8)
    records = np.tile(record, (count, 1))
    checksums = np.full(count, _byte_by_byte(common), np.uint32)
    table = _table_for(size)
    for place, column in zip(places, columns, strict=True):
        with np.errstate(over="ignore"):  # beyond what 32 bits can hold there is only infinity
            raw = np.array(column, np.float64).astype("<f4").view(np.uint8).reshape(count, SCALAR_BYTES)
        records[:, len(frame) + place : len(frame) + place + SCALAR_BYTES] = raw
        for number in range(SCALAR_BYTES):
            was = common[place + number]
            checksums ^= table[size - 1 - place - number][raw[:, number] ^ was]
    masked = ((checksums >> 15) | (checksums << 17)) + np.uint32(MASK_DELTA)
    records[:, -CHECKSUM_BYTES:] = masked.astype("<u4").view(np.uint8).reshape(count, CHECKSUM_BYTES)
    return records.tobytes()


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
