"""The byte layout of a frame buffer: head, frame headers, heartbeat and demand. docs/live.md has a diagram.

A frame buffer is one file: a *head* (one page about the buffer, then an entry per slot), which the writer maps and
which is reserved when the buffer is created; behind it the *images*, two per slot, which take up memory only once they
are written. Numbers are little-endian.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Union

if TYPE_CHECKING:
    from collections.abc import Iterable

MAGIC = b"PALANE\x00\x01"
VERSION = 1
PAGE = 4096
MAX_SLOTS = 1024
MAX_SIDE = 4096  # pixels of an image in a frame buffer
MAX_CAPACITY = MAX_SIDE * MAX_SIDE * 3

ABOUT_AT, DEMAND_AT, HEARTBEAT_AT, SLOTS_AT = 0, 512, 1024, PAGE
SLOT_BYTES = 256
HEADER_AT = (32, 128)  # of the two images of a slot, within its entry; the first word says which is current

ABOUT = struct.Struct("<8sIIQIxxxxdd")  # magic, version, slots, capacity, owner's pid and start time, creation time
CHECK = struct.Struct("<I")  # CRC-32 of the bytes before it
SEQUENCE = struct.Struct("<Q")


@dataclass(frozen=True)
class About:
    """The constant part of a frame buffer."""

    slot_count: int
    capacity: int  # largest size of one image or message in bytes
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

    def image_at(self, slot: int, index: int) -> int:
        return self.head_bytes + (2 * slot + index) * _whole_pages(self.capacity)

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
    """The beginning of a file, or the reason why it is not a frame buffer."""
    if len(data) < ABOUT.size + CHECK.size:
        return f"it has only {len(data)} bytes"
    magic, version, slots, capacity, pid, started_at, made_at = ABOUT.unpack_from(data)
    if magic != MAGIC:
        return f"it begins with {magic!r} instead of {MAGIC!r}"
    if version != VERSION:
        return f"it has version {version}, and this Palaestra reads {VERSION}"
    if unchecked(data, ABOUT.size) is None:
        return "the checksum of its head is wrong"
    if not 1 <= slots <= MAX_SLOTS:
        return f"it has {slots} slots, and 1 to {MAX_SLOTS} are possible"
    if not 1 <= capacity <= MAX_CAPACITY:
        return f"it has room for {capacity} bytes per image, and 1 to {MAX_CAPACITY} are possible"
    return About(slots, capacity, pid, started_at, made_at)


def checked(data: bytes) -> bytes:
    return data + CHECK.pack(zlib.crc32(data))


def unchecked(data: bytes, size: int) -> bytes | None:
    """The first `size` bytes, or None if the checksum behind them is wrong."""
    body = data[:size]
    return body if data[size : size + CHECK.size] == CHECK.pack(zlib.crc32(body)) else None


def _whole_pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


FRAME_HEADER = struct.Struct("<QHHIIIQQQddd")
PIXELS, STATE = 1, 2  # [height, width, 3] bytes; or a state that the browser draws
CHANNELS = 3

Payload = Union[bytes, memoryview]  # noqa: UP007  of single bytes; Python 3.8 has no `|` for types


@dataclass(frozen=True)
class Numbers:
    """Progress of an environment at the step that a frame shows."""

    env_step: int  # steps of this environment since its process started
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
        numbers = self.numbers
        return FRAME_HEADER.pack(
            *(self.sequence, self.kind, channels, self.width, self.height, checksum),
            *(self.size, numbers.env_step, numbers.length, self.captured_at, numbers.reward, numbers.total_reward),
        )


def unpack_frame_header(data: bytes, capacity: int) -> tuple[FrameHeader, int] | str:
    """The header and the checksum of header and payload; or the name of the field that is invalid."""
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


REASON_BYTES = 256
HEARTBEAT = struct.Struct(f"<dQQQddI{REASON_BYTES}s")
Condition = Literal["open", "closed", "failed"]
CONDITIONS: tuple[Condition, ...] = ("open", "closed", "failed")


@dataclass(frozen=True)
class Heartbeat:
    at: float  # on the machine's monotonic clock
    env_steps: int  # of the run
    episodes: int  # ended in this process
    frames: int  # written so far
    seconds_spent: float  # on rendering and writing them
    seconds_watched: float  # with a viewer
    condition: Condition = "open"
    reason: str = ""  # why it failed

    @property
    def cost(self) -> float:
        """The share of its time that the worker spends on viewers."""
        return self.seconds_spent / self.seconds_watched if self.seconds_watched > 0 else 0.0

    def pack(self) -> bytes:
        reason = self.reason.encode()[:REASON_BYTES]
        return checked(
            HEARTBEAT.pack(
                *(self.at, self.env_steps, self.episodes, self.frames, self.seconds_spent, self.seconds_watched),
                *(CONDITIONS.index(self.condition), reason),
            )
        )


def unpack_heartbeat(data: bytes) -> Heartbeat | None:
    """None if it was read while it was written, or was never written."""
    body = unchecked(data, HEARTBEAT.size)
    if body is None:
        return None
    at, env_steps, episodes, frames, spent, watched, condition, reason = HEARTBEAT.unpack(body)
    if condition >= len(CONDITIONS) or not all(map(math.isfinite, (at, spent, watched))):
        return None
    text = reason.rstrip(b"\x00").decode(errors="replace")
    return Heartbeat(at, env_steps, episodes, frames, spent, watched, CONDITIONS[condition], text)


DEMAND = struct.Struct(f"<QdIxxxxQQ{MAX_SLOTS // 8}s")
LEASE_SECONDS = 2.0
LONGEST_LEASE = 10.0  # seconds; a longer one comes from another clock
MAX_FRAME_RATE = 60.0  # frames per second of one tile
NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Demand:
    frames_per_second: float  # of each tile
    largest_side: int  # pixels; 0: as rendered
    slots: frozenset[int]
    notifier: int  # number of the socket to notify of new frames
    ticket: int  # sent with each notification, so that one notifier serves many frame buffers

    def pack(self, until: float) -> bytes:
        """`until`: on the machine's monotonic clock"""
        mask = sum(1 << slot for slot in self.slots).to_bytes(MAX_SLOTS // 8, "little")
        lease = int(until * NANOSECONDS)
        return checked(DEMAND.pack(lease, self.frames_per_second, self.largest_side, self.notifier, self.ticket, mask))


def unpack_demand(data: bytes, now: float) -> Demand | None:
    """None without a valid demand."""
    body = unchecked(data, DEMAND.size)
    if body is None:
        return None
    lease, frames_per_second, side, notifier, ticket, mask = DEMAND.unpack(body)
    left = lease / NANOSECONDS - now
    if not 0 < left <= LONGEST_LEASE or not math.isfinite(frames_per_second) or frames_per_second <= 0:
        return None
    return Demand(min(frames_per_second, MAX_FRAME_RATE), min(side, MAX_SIDE), _slots(mask), notifier, ticket)


def merge(demands: Iterable[Demand]) -> Demand | None:
    """The highest rate, the largest side and all slots of several demands of one notifier."""
    every = list(demands)
    if not every:
        return None
    sides = [demand.largest_side for demand in every]
    return Demand(
        max(demand.frames_per_second for demand in every),
        0 if 0 in sides else max(sides),
        frozenset().union(*(demand.slots for demand in every)),
        every[0].notifier,
        every[0].ticket,
    )


def _slots(mask: bytes) -> frozenset[int]:
    number = int.from_bytes(mask, "little")
    return frozenset(slot for slot in range(number.bit_length()) if number >> slot & 1)
