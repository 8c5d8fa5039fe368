"""The worker's end of a frame buffer: it never waits for a reader, and does not know whether there is one.

Of the two places of a slot it writes the one that does not count, and then says that this one counts. Killed in
between, it leaves the older frame as it was.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from typing import TYPE_CHECKING

import numpy as np

from .demand import DEMAND, NANOSECONDS, Demand, unpack_demand
from .frame_header import PIXELS, STATE, FrameHeader, Numbers, Payload
from .layout import CHECK, DEMAND_AT, HEADER_AT, HEARTBEAT_AT, SEQUENCE, SLOT_BYTES, SLOTS_AT
from .notifier import NotificationSender

if TYPE_CHECKING:
    from .heartbeat import Heartbeat
    from .layout import About
    from .shrink import Pixels

LEASE_WORD = DEMAND_AT // 8
FIRST_SLOT_WORD, SLOT_WORDS = SLOTS_AT // 8, SLOT_BYTES // 8


class FrameWriter:
    """Each slot has one writer; several processes may each write slots of their own."""

    def __init__(self, descriptor: int, about: About) -> None:
        """Of a `FrameBufferOwner` or a `FrameBufferFile`, which stays open at least as long."""
        self._descriptor = descriptor
        self.about = about
        self._head = mmap.mmap(descriptor, about.head_bytes)
        self._words = memoryview(self._head).cast("Q")
        self._sender = NotificationSender()
        self.frames = 0

    def is_wanted(self, now: float) -> bool:
        """One word is looked at. `now`: on the machine's monotonic clock"""
        return self._words[LEASE_WORD] > now * NANOSECONDS

    def demand(self, now: float) -> Demand | None:
        """None when nobody watches, or the request is just being written."""
        if not self.is_wanted(now):
            return None
        demand = unpack_demand(self._head[DEMAND_AT : DEMAND_AT + DEMAND.size + CHECK.size], now)
        return demand if demand is not None and demand.slots else None

    def total_frames(self) -> int:
        """Written so far, by whomever: each slot counts its own"""
        return sum(self._words[FIRST_SLOT_WORD::SLOT_WORDS][: self.about.slot_count])

    def frames_of(self, slot: int) -> int:
        """Written to this slot so far, by whomever"""
        return self._words[FIRST_SLOT_WORD + SLOT_WORDS * slot]

    def write(self, slot: int, content: Pixels | bytes, numbers: Numbers, captured_at: float | None = None) -> None:
        """OSError when there is no room for it. A picture has at most the frame buffer's capacity.

        `captured_at`: seconds since 1970, when that was not just now.
        """
        kind, width, height, payload = _as_payload(content)
        if len(payload) > self.about.capacity:
            raise OSError(errno.EFBIG, f"{len(payload)} bytes do not fit into {self.about.capacity}")
        entry = self.about.slot_at(slot)
        sequence = SEQUENCE.unpack_from(self._head, entry)[0] + 1
        place = sequence & 1
        note = FrameHeader(sequence, kind, width, height, len(payload), captured_at or time.time(), numbers)
        SEQUENCE.pack_into(self._head, entry + HEADER_AT[place], 0)  # this place is being written
        self._write_whole(payload, self.about.image_at(slot, place))
        packed = note.pack(payload)
        self._head[entry + HEADER_AT[place] : entry + HEADER_AT[place] + len(packed)] = packed
        # One store. `pack_into` writes zeros first: killed after that, the slot would have no frame at all.
        self._words[entry // SEQUENCE.size] = sequence
        self.frames += 1

    def notify(self, demand: Demand, slot: int) -> None:
        self._sender.notify(demand.notifier, demand.ticket, slot)

    def write_heartbeat(self, heartbeat: Heartbeat) -> None:
        packed = heartbeat.pack()
        self._head[HEARTBEAT_AT : HEARTBEAT_AT + len(packed)] = packed

    def close(self) -> None:
        self._sender.close()
        self._words.release()
        self._head.close()

    def _write_whole(self, payload: Payload, offset: int) -> None:
        """By a system call: where memory is short this is an error, and through a mapping it would be a SIGBUS."""
        done = os.pwrite(self._descriptor, payload, offset)
        if done != len(payload):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _as_payload(content: Pixels | bytes) -> tuple[int, int, int, Payload]:
    if isinstance(content, bytes):
        return STATE, 0, 0, content
    height, width = content.shape[:2]
    return PIXELS, width, height, np.ascontiguousarray(content).data.cast("B")
