"""The worker's end of a lane: it never waits for a reader, and does not know whether there is one.

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

from palaestra.frames.bell import Ringer
from palaestra.frames.demand import DEMAND, NANOSECONDS, Demand, unpack_demand
from palaestra.frames.layout import BEAT_AT, CHECK, DEMAND_AT, NOTE_AT, SEQUENCE, SLOT_BYTES, SLOTS_AT
from palaestra.frames.note import PIXELS, STATE, Note, Numbers, Payload

if TYPE_CHECKING:
    from palaestra.frames.beat import Beat
    from palaestra.frames.layout import About
    from palaestra.frames.shrink import Picture

LEASE_WORD = DEMAND_AT // 8
FIRST_SLOT_WORD, SLOT_WORDS = SLOTS_AT // 8, SLOT_BYTES // 8


class FrameWriter:
    """Each slot has one writer; several processes may each write slots of their own."""

    def __init__(self, descriptor: int, about: About) -> None:
        """Of a `LaneOwner` or a `LaneFile`, which stays open at least as long."""
        self._descriptor = descriptor
        self.about = about
        self._head = mmap.mmap(descriptor, about.head_bytes)
        self._words = memoryview(self._head).cast("Q")
        self._ringer = Ringer()
        self.frames = 0

    def is_wanted(self, now: float) -> bool:
        """One word is looked at. `now`: on the machine's monotonic clock"""
        return self._words[LEASE_WORD] > now * NANOSECONDS

    def demand(self, now: float) -> Demand | None:
        """None when nobody watches, or the wish is just being written."""
        if not self.is_wanted(now):
            return None
        demand = unpack_demand(self._head[DEMAND_AT : DEMAND_AT + DEMAND.size + CHECK.size], now)
        return demand if demand is not None and demand.slots else None

    def frames_in_lane(self) -> int:
        """Written so far, by whomever: each slot counts its own"""
        return sum(self._words[FIRST_SLOT_WORD::SLOT_WORDS][: self.about.slot_count])

    def write(self, slot: int, content: Picture | bytes, numbers: Numbers, captured_at: float | None = None) -> None:
        """OSError when there is no room for it. A picture has at most the lane's capacity.

        `captured_at`: seconds since 1970, when that was not just now.
        """
        kind, width, height, payload = _as_payload(content)
        if len(payload) > self.about.capacity:
            raise OSError(errno.EFBIG, f"{len(payload)} bytes do not fit into {self.about.capacity}")
        entry = self.about.slot_at(slot)
        sequence = SEQUENCE.unpack_from(self._head, entry)[0] + 1
        place = sequence & 1
        note = Note(sequence, kind, width, height, len(payload), captured_at or time.time(), numbers)
        SEQUENCE.pack_into(self._head, entry + NOTE_AT[place], 0)  # this place is being written
        self._write_whole(payload, self.about.picture_at(slot, place))
        packed = note.pack(payload)
        self._head[entry + NOTE_AT[place] : entry + NOTE_AT[place] + len(packed)] = packed
        # One store. `pack_into` writes zeros first: killed after that, the slot would have no frame at all.
        self._words[entry // SEQUENCE.size] = sequence
        self.frames += 1

    def ring(self, demand: Demand, slot: int) -> None:
        self._ringer.ring(demand.bell, demand.ticket, slot)

    def beat(self, beat: Beat) -> None:
        packed = beat.pack()
        self._head[BEAT_AT : BEAT_AT + len(packed)] = packed

    def close(self) -> None:
        self._ringer.close()
        self._words.release()
        self._head.close()

    def _write_whole(self, payload: Payload, offset: int) -> None:
        """By a system call: where memory is short this is an error, and through a mapping it would be a SIGBUS."""
        done = os.pwrite(self._descriptor, payload, offset)
        if done != len(payload):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _as_payload(content: Picture | bytes) -> tuple[int, int, int, Payload]:
    if isinstance(content, bytes):
        return STATE, 0, 0, content
    height, width = content.shape[:2]
    return PIXELS, width, height, np.ascontiguousarray(content).data.cast("B")
