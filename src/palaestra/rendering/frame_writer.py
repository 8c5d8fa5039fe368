"""Writes frames into a frame buffer without ever waiting for a reader.

Every slot has two images. A frame is written into the one that is not current, which then becomes the current one; a
writer that is killed in between leaves the older frame intact.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from typing import TYPE_CHECKING

import numpy as np

from .frame_format import (
    CHECK,
    DEMAND,
    DEMAND_AT,
    HEADER_AT,
    HEARTBEAT_AT,
    NANOSECONDS,
    PIXELS,
    SEQUENCE,
    SLOT_BYTES,
    SLOTS_AT,
    STATE,
    Demand,
    FrameHeader,
    Numbers,
    Payload,
    unpack_demand,
)
from .notifier import NotificationSender

if TYPE_CHECKING:
    from .frame_format import About, Heartbeat
    from .images import Pixels

LEASE_WORD = DEMAND_AT // 8
FIRST_SLOT_WORD, SLOT_WORDS = SLOTS_AT // 8, SLOT_BYTES // 8


class FrameWriter:
    """Each slot has one writer; several processes may each write slots of their own."""

    def __init__(self, descriptor: int, about: About) -> None:
        """`descriptor`: of a `FrameBufferOwner` or a `FrameBufferFile` that stays open at least as long."""
        self._descriptor = descriptor
        self.about = about
        self._head = mmap.mmap(descriptor, about.head_bytes)
        self._words = memoryview(self._head).cast("Q")
        self._sender = NotificationSender()
        self.frames = 0

    def is_wanted(self, now: float) -> bool:
        """Whether there is a viewer; reads one word. `now`: on the machine's monotonic clock."""
        return self._words[LEASE_WORD] > now * NANOSECONDS

    def demand(self, now: float) -> Demand | None:
        """None without a viewer, or while the demand is being written."""
        if not self.is_wanted(now):
            return None
        demand = unpack_demand(self._head[DEMAND_AT : DEMAND_AT + DEMAND.size + CHECK.size], now)
        return demand if demand is not None and demand.slots else None

    def total_frames(self) -> int:
        """Frames written so far by all processes."""
        return sum(self._words[FIRST_SLOT_WORD::SLOT_WORDS][: self.about.slot_count])

    def frames_of(self, slot: int) -> int:
        """Frames written to this slot so far by all processes."""
        return self._words[FIRST_SLOT_WORD + SLOT_WORDS * slot]

    def write(self, slot: int, content: Pixels | bytes, numbers: Numbers, captured_at: float | None = None) -> None:
        """Raises OSError if memory is short or the frame is larger than the buffer's capacity.

        `captured_at`: seconds since 1970; default: now.
        """
        kind, width, height, payload = _as_payload(content)
        if len(payload) > self.about.capacity:
            raise OSError(errno.EFBIG, f"{len(payload)} bytes do not fit into {self.about.capacity}")
        entry = self.about.slot_at(slot)
        sequence = SEQUENCE.unpack_from(self._head, entry)[0] + 1
        index = sequence & 1
        header = FrameHeader(sequence, kind, width, height, len(payload), captured_at or time.time(), numbers)
        SEQUENCE.pack_into(self._head, entry + HEADER_AT[index], 0)  # this image is being written
        self._write_whole(payload, self.about.image_at(slot, index))
        packed = header.pack(payload)
        self._head[entry + HEADER_AT[index] : entry + HEADER_AT[index] + len(packed)] = packed
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
        """By a system call: if memory is short it raises OSError; through a mapping it would be a SIGBUS."""
        done = os.pwrite(self._descriptor, payload, offset)
        if done != len(payload):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _as_payload(content: Pixels | bytes) -> tuple[int, int, int, Payload]:
    if isinstance(content, bytes):
        return STATE, 0, 0, content
    height, width = content.shape[:2]
    return PIXELS, width, height, np.ascontiguousarray(content).data.cast("B")
