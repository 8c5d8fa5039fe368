"""What viewers want of a frame buffer, as the server writes it and the worker reads it; a request lasts two seconds."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .layout import MAX_SIDE, MAX_SLOTS, checked, unchecked

if TYPE_CHECKING:
    from collections.abc import Iterable

DEMAND = struct.Struct(f"<QdIxxxxQQ{MAX_SLOTS // 8}s")
LEASE_SECONDS = 2.0
LONGEST_LEASE = 10.0  # seconds; one that lasts longer comes from another clock
FASTEST = 60.0  # frames per second of one tile
NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Demand:
    frames_per_second: float  # of each tile
    largest_side: int  # pixels; 0: as drawn
    slots: frozenset[int]
    notifier: int  # number of the socket to ring when there is something to see
    ticket: int  # to be said with each ring, so that one notifier can serve many frame buffers

    def pack(self, until: float) -> bytes:
        """`until`: on the machine's monotonic clock"""
        mask = sum(1 << slot for slot in self.slots).to_bytes(MAX_SLOTS // 8, "little")
        lease = int(until * NANOSECONDS)
        return checked(DEMAND.pack(lease, self.frames_per_second, self.largest_side, self.notifier, self.ticket, mask))


def unpack_demand(data: bytes, now: float) -> Demand | None:
    """None when nobody wants anything, or what is wanted makes no sense."""
    body = unchecked(data, DEMAND.size)
    if body is None:
        return None
    lease, frames_per_second, side, notifier, ticket, mask = DEMAND.unpack(body)
    left = lease / NANOSECONDS - now
    if not 0 < left <= LONGEST_LEASE or not math.isfinite(frames_per_second) or frames_per_second <= 0:
        return None
    return Demand(min(frames_per_second, FASTEST), min(side, MAX_SIDE), _slots(mask), notifier, ticket)


def merge(demands: Iterable[Demand]) -> Demand | None:
    """What serves all of them: the fastest, the largest, every slot. They ring one notifier."""
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
