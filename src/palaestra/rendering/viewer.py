"""A viewer: its request and its flow control.

A viewer has no queue of frames but a set of slots with new frames, of which the newest is read when it is sent. So a
slow viewer gets fewer frames, never old ones, and takes no memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .frame_buffer import InvalidRequest
from .frame_format import MAX_FRAME_RATE, MAX_SLOTS

if TYPE_CHECKING:
    from collections.abc import Callable

CREDITS = 2  # frames in flight; with eight a slow viewer got frames that were seconds old
SIDES = (64, 96, 128, 192, 256, 320, 480, 640, 960, 1280, 2048)  # few, so that viewers share encoded frames
QUALITIES = (50, 75, 90)


@dataclass(frozen=True)
class ViewerRequest:
    frames_per_second: float = 15.0  # of each tile
    slots: frozenset[int] | None = None  # None: all
    largest_side: int = 320  # pixels
    quality: int = 75

    def __post_init__(self) -> None:
        if not (math.isfinite(self.frames_per_second) and 0 < self.frames_per_second <= MAX_FRAME_RATE):
            raise InvalidRequest(f"Invalid frames_per_second: {self.frames_per_second}.", f"Up to {MAX_FRAME_RATE:g}.")
        if self.slots is not None and not all(0 <= slot < MAX_SLOTS for slot in self.slots):
            raise InvalidRequest(f"Invalid slots: {sorted(self.slots)[:8]}.", f"Slots are 0 to {MAX_SLOTS - 1}.")

    @property
    def size(self) -> tuple[int, int]:
        """Largest side and quality, rounded up to the supported steps."""
        return _step(SIDES, self.largest_side), _step(QUALITIES, self.quality)


def _step(steps: tuple[int, ...], requested: int) -> int:
    return next((step for step in steps if step >= requested), steps[-1])


class Viewer:
    def __init__(self, request: ViewerRequest | None = None, on_ready: Callable[[], None] = lambda: None) -> None:
        """`on_ready` is called when there may be a frame to take; it must not block."""
        self.request = request or ViewerRequest()
        self.sent = self.skipped = 0  # frames; skipped ones were replaced by newer ones before they were sent
        self._on_ready = on_ready
        self._credits = CREDITS
        self._new: set[int] = set()  # slots with a new frame
        self._next_at: dict[int, float] = {}
        self._received: dict[int, int] = {}  # sequence number of the last frame sent, by slot
        self._last = -1

    @property
    def _period(self) -> float:
        """Seconds between two frames of a slot."""
        return 1 / self.request.frames_per_second

    def wants(self, slot: int) -> bool:
        return self.request.slots is None or slot in self.request.slots

    def offer(self, slot: int) -> None:
        if not self.wants(slot):
            return
        if slot in self._new:
            self.skipped += 1
        else:
            self._new.add(slot)
        if self._credits:
            self._on_ready()

    def next_slot(self, now: float) -> int | None:
        """The next slot in round-robin order, so that no tile starves; None without credit."""
        if not self._credits:
            return None
        early = self._period / 4  # frames arrive with jitter
        due = [slot for slot in self._new if self.wants(slot) and self._next_at.get(slot, now) <= now + early]
        return min(due, key=lambda slot: (slot <= self._last, slot)) if due else None

    def has_received(self, slot: int, sequence: int) -> bool:
        return self._received.get(slot) == sequence

    def skip(self, slot: int) -> None:
        """There is no new frame in this slot after all."""
        self._new.discard(slot)

    def record_sent(self, slot: int, sequence: int, now: float) -> None:
        self.skip(slot)
        self._credits -= 1
        self._received[slot] = sequence
        self._last = slot
        planned = self._next_at.get(slot, now)
        self._next_at[slot] = max(planned, now - self._period) + self._period
        self.sent += 1

    def acknowledge(self, count: int = 1) -> None:
        """`count` frames have arrived; the credit never exceeds its maximum."""
        self._credits = min(CREDITS, self._credits + max(0, count))
        if self._new:
            self._on_ready()

    def reset(self) -> None:
        """The frame buffer was replaced; sequence numbers restart."""
        self._received.clear()
        self._new.clear()
