"""One who watches: what they want to see, and how much of it they can take.

What waits for a viewer is not frames but slots that have something new: whatever is taken later is the newest there
is. A slow viewer so gets fewer frames, never old ones, and holds no memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .demand import FASTEST
from .errors import InvalidRequest
from .layout import MAX_SLOTS

if TYPE_CHECKING:
    from collections.abc import Callable

CREDITS = 2  # frames on their way; eight gave a slow viewer pictures that were seconds old
SIDES = (64, 96, 128, 192, 256, 320, 480, 640, 960, 1280, 2048)  # few, so that viewers share what is encoded
QUALITIES = (50, 75, 90)


@dataclass(frozen=True)
class ViewerRequest:
    frames_per_second: float = 15.0  # of each tile
    slots: frozenset[int] | None = None  # None: all that there are
    largest_side: int = 320  # pixels
    quality: int = 75

    def __post_init__(self) -> None:
        if not (math.isfinite(self.frames_per_second) and 0 < self.frames_per_second <= FASTEST):
            raise InvalidRequest(f"Invalid frames_per_second: {self.frames_per_second}.", f"Up to {FASTEST:g}.")
        if self.slots is not None and not all(0 <= slot < MAX_SLOTS for slot in self.slots):
            raise InvalidRequest("There is no such slot.", f"Slots are counted from 0; there are at most {MAX_SLOTS}.")

    @property
    def size(self) -> tuple[int, int]:
        """Largest side and quality, the nearest above what was asked for"""
        return _step(SIDES, self.largest_side), _step(QUALITIES, self.quality)


def _step(steps: tuple[int, ...], asked: int) -> int:
    return next((step for step in steps if step >= asked), steps[-1])


class Viewer:
    def __init__(self, request: ViewerRequest | None = None, on_ready: Callable[[], None] = lambda: None) -> None:
        """`on_ready` is called whenever there may be something to take; it must not wait."""
        self.request = request or ViewerRequest()
        self.sent = self.skipped = 0  # frames; the latter were replaced by newer ones before they could be taken
        self._on_ready = on_ready
        self._credits = CREDITS
        self._new: set[int] = set()  # slots with something new
        self._next_at: dict[int, float] = {}
        self._seen: dict[int, int] = {}  # sequence of the last frame of each slot
        self._last = -1

    @property
    def _period(self) -> float:
        """Seconds between two frames of a slot"""
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
        """Whose turn it is, in order from the last one on, so that no tile starves; None without credit."""
        if not self._credits:
            return None
        early = self._period / 4  # frames do not come like clockwork
        due = [slot for slot in self._new if self.wants(slot) and self._next_at.get(slot, now) <= now + early]
        return min(due, key=lambda slot: (slot <= self._last, slot)) if due else None

    def has_seen(self, slot: int, sequence: int) -> bool:
        return self._seen.get(slot) == sequence

    def pass_over(self, slot: int) -> None:
        """There was nothing new after all."""
        self._new.discard(slot)

    def took(self, slot: int, sequence: int, now: float) -> None:
        self.pass_over(slot)
        self._credits -= 1
        self._seen[slot] = sequence
        self._last = slot
        planned = self._next_at.get(slot, now)
        self._next_at[slot] = max(planned, now - self._period) + self._period
        self.sent += 1

    def acknowledge(self, count: int = 1) -> None:
        """So many frames have arrived; nobody can have more on their way than were sent."""
        self._credits = min(CREDITS, self._credits + max(0, count))
        if self._new:
            self._on_ready()

    def forget(self) -> None:
        """The frame buffer is another now; its frames are counted anew."""
        self._seen.clear()
        self._new.clear()
