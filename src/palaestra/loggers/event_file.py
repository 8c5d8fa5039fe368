"""TensorBoard's record format, appended in this thread.

Tensorboard's own EventFileWriter was tried and left: its thread prints a traceback of its own when the disk is
full, its queue blocks the caller when it is, and its checksum costs 0.3 µs a byte under the same interpreter
lock. Here an error is raised where it can be caught, and a record costs a few µs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import repeat
from struct import Struct, pack
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    def append_batch(self, points: ScalarBatch) -> None:
        """Many events at once; behind those that wait."""
        self._write()
        self._file.write(frame_batch(points))

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
        self._file.write(b"".join(frame_events(waiting)))


def frame_batch(points: ScalarBatch) -> bytes:
    """As `framed` does it with each by itself. A checksum is linear: only bytes that differ have to be looked up."""
    common, positions = points.layout.common, np.array(points.layout.positions)
    frame, table = _length_frame(len(common)), _table_for(len(common))
    bytes_seen = points.variable_bytes()  # [events, places]
    added = table[len(common) - 1 - positions, bytes_seen ^ np.frombuffer(common, np.uint8)[positions]]
    checksums = np.bitwise_xor.reduce(added, axis=1) ^ np.uint32(_checksum(common))
    masked = ((checksums >> 15) | (checksums << 17)) + np.uint32(MASK_DELTA)
    records = np.tile(np.frombuffer(frame + common + bytes(CHECKSUM_BYTES), np.uint8), (len(bytes_seen), 1))
    records[:, len(frame) + positions] = bytes_seen
    records[:, -CHECKSUM_BYTES:] = masked.astype("<u4").view(np.uint8).reshape(-1, CHECKSUM_BYTES)
    return records.tobytes()


@lru_cache(maxsize=256)
def _checksum(common: bytes) -> int:
    return _byte_by_byte(common)


def frame_events(events: Sequence[bytes]) -> list[bytes]:
    """Each with its length and the checksums of both, in the same order."""
    positions: dict[int, list[int]] = {}
    for place, event in enumerate(events):
        positions.setdefault(len(event), []).append(place)
    records = list(events)
    for size, own in positions.items():
        frame = _length_frame(size)
        for place, checksum in zip(own, masked_crc32c([events[place] for place in own]), strict=True):
            records[place] = frame + events[place] + pack("<I", checksum)
    return records


@dataclass(frozen=True)
class ScalarBatch:
    """Events that differ only in time, step and scalars, and whose bytes are as many."""

    tags: tuple[str, ...]
    layout: EventLayout
    moments: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    rows: list[Sequence[float]] = field(default_factory=list)  # scalars in the order of the tags

    def encode_each(self) -> Iterator[bytes]:
        for moment, step, row in zip(self.moments, self.steps, self.rows, strict=True):
            yield scalars_event(moment, step, dict(zip(self.tags, row, strict=True)))

    def variable_bytes(self) -> NDArray[np.uint8]:
        """[events, the form's places]"""
        steps = np.array(self.steps)
        bits = [steps >> 7 * number & 0x7F for number in range(len(self.layout.step))]
        more_follow = [part | 0x80 for part in bits[:-1]]
        with np.errstate(over="ignore"):  # beyond what 32 bits can hold there is only infinity
            scalars = np.array(self.rows, np.float64).astype("<f4")
        moments = np.array(self.moments, "<f8")
        return np.column_stack(
            [
                moments.view(np.uint8).reshape(-1, MOMENT_BYTES),
                *(part.astype(np.uint8) for part in (*more_follow, *bits[-1:])),
                scalars.view(np.uint8).reshape(len(steps), len(self.tags) * SCALAR_BYTES),
            ]
        )


class ScalarBatches:
    """What was added, in as few `AlikePoints` as it takes."""

    def __init__(self) -> None:
        self._alike: dict[tuple[tuple[str, ...], int], ScalarBatch] = {}

    def add(self, moment: float, step: int, tags: tuple[str, ...], rows: Iterable[Sequence[float]]) -> None:
        """Several of one moment: each row is a point of every tag."""
        key = (tags, step_bytes_of(step))
        points = self._alike.get(key)
        if points is None:
            points = self._alike[key] = ScalarBatch(tags, layout_of(*key))
        before = len(points.rows)
        points.rows.extend(rows)
        count = len(points.rows) - before
        points.moments.extend(repeat(moment, count))
        points.steps.extend(repeat(step, count))

    def __iter__(self) -> Iterator[ScalarBatch]:
        return iter(self._alike.values())


FIXED64, LENGTH, FIXED32, VARINT = 1, 2, 5, 0
STRING_TENSOR = 7  # DT_STRING
SESSION_START = 1
SCALAR_BYTES, MOMENT_BYTES = 4, 8


def version_event(at: float) -> bytes:
    """The first record of every file."""
    return _head(at, 0) + _bytes_field(3, b"brain.Event:2")


def session_start_event(at: float, step: int) -> bytes:
    """Tells a reader to forget the points from `step` on."""
    return _head(at, step) + _bytes_field(7, _key(1, VARINT) + _varint(SESSION_START))


def scalars_event(at: float, step: int, values: Mapping[str, float]) -> bytes:
    return _head(at, step) + _bytes_field(5, _summary(values))


@dataclass(frozen=True)
class EventLayout:
    """What events of the same scalars have in common, and the places of the bytes in which they differ."""

    common: bytes
    moment: range
    step: range  # empty at step 0, which is not written
    scalars: tuple[range, ...]

    @property
    def positions(self) -> list[int]:
        return [place for part in (self.moment, self.step, *self.scalars) for place in part]


@lru_cache(maxsize=256)
def layout_of(tags: tuple[str, ...], step_bytes: int) -> EventLayout:
    """Of events whose steps take as many bytes, see `step_bytes_of`."""
    step = 1 << 7 * (step_bytes - 1) if step_bytes else 0
    common = scalars_event(0.0, step, dict.fromkeys(tags, 0.0))
    scalars, end = [], len(common)
    for tag in reversed(tags):
        scalars.append(range(end - SCALAR_BYTES, end))
        end -= len(_scalar_prefix(tag)) + SCALAR_BYTES
    behind_moment = 1 + MOMENT_BYTES + 1  # keys are a byte each
    return EventLayout(
        common, range(1, 1 + MOMENT_BYTES), range(behind_moment, behind_moment + step_bytes), (*scalars[::-1],)
    )


def step_bytes_of(step: int) -> int:
    return (step.bit_length() + 6) // 7


def text_event(at: float, step: int, tag: str, text: str) -> bytes:
    """Markdown for TensorBoard's text page."""
    plugin = _bytes_field(1, b"text")
    tensor = _key(1, VARINT) + _varint(STRING_TENSOR) + _bytes_field(8, text.encode())
    value = _bytes_field(1, tag.encode()) + _bytes_field(8, tensor) + _bytes_field(9, _bytes_field(1, plugin))
    return _head(at, step) + _bytes_field(5, _bytes_field(1, value))


def _head(at: float, step: int) -> bytes:
    wall_time = _key(1, FIXED64) + pack("<d", at)
    return wall_time + _key(2, VARINT) + _varint(step) if step else wall_time


def _summary(values: Mapping[str, float]) -> bytes:
    """All scalars in one call: a run has a sample of seventeen hundreds of times a second."""
    layout, fields = _summary_struct(tuple(values))
    own = fields.copy()
    own[1::2] = values.values()
    try:
        return layout.pack(*own)
    except OverflowError:
        return b"".join(_scalar_prefix(tag) + _float32(value) for tag, value in values.items())


@lru_cache(maxsize=256)
def _summary_struct(tags: tuple[str, ...]) -> tuple[Struct, list[Any]]:
    """Of those tags side by side: what stands before each value, and the places of the values."""
    prefixes = [_scalar_prefix(tag) for tag in tags]
    fields: list[Any] = [word for prefix in prefixes for word in (prefix, 0.0)]
    return Struct("<" + "".join(f"{len(prefix)}sf" for prefix in prefixes)), fields


@cache
def _scalar_prefix(tag: str) -> bytes:
    """Everything of a `Summary.Value` but its four bytes of float; a run has few tags and writes them often."""
    content = _bytes_field(1, tag.encode()) + _key(2, FIXED32)
    return _key(1, LENGTH) + _varint(len(content) + 4) + content


def _float32(value: float) -> bytes:
    """Beyond what 32 bits can hold there is only infinity."""
    try:
        return pack("<f", value)
    except OverflowError:
        return pack("<f", float("inf") if value > 0 else float("-inf"))


def _bytes_field(number: int, content: bytes) -> bytes:
    return _key(number, LENGTH) + _varint(len(content)) + content


def _key(number: int, kind: int) -> bytes:
    return bytes((number << 3 | kind,))


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
