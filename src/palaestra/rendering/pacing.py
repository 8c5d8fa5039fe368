"""How often pictures are drawn: as often as somebody wants, and never for more than a share of the time.

Time to draw is earned at the rate of the budget and spent by drawing. What is spent on one picture must be earned
before the next is begun, so the share holds whatever a picture costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SAVED_SECONDS = 1.0  # of earning that may be kept for later; a long update is followed by a few pictures at once


class Pacing:
    """All times are seconds on one monotonic clock."""

    def __init__(self, budget: float) -> None:
        """`budget`: the share of the time that drawing may take, above 0"""
        self.budget = budget
        self._earned = 0.0
        self._counted_at: float | None = None
        self._next_at: dict[int, float] = {}  # by slot
        self._last = -1  # slot that was drawn last

    def begin(self, now: float) -> None:
        """Earn for the time since the last call; at first there is enough for a picture."""
        if self._counted_at is not None:
            earned = self._earned + (now - self._counted_at) * self.budget
            self._earned = min(earned, SAVED_SECONDS * self.budget)
        self._counted_at = now

    def next_slot(self, wanted: Iterable[int], now: float) -> int | None:
        """Whose turn it is: those that are due, in order, beginning after the last one; None when none may be drawn."""
        if self._earned < 0:
            return None
        due = [slot for slot in wanted if self._next_at.get(slot, now) <= now]
        return min(due, key=lambda slot: (slot <= self._last, slot)) if due else None

    def drawn(self, slot: int, began_at: float, cost: float, frames_per_second: float) -> None:
        """`cost`: seconds that it took"""
        self.pay(cost)
        self._last = slot
        self._next_at[slot] = began_at + 1 / frames_per_second

    def pay(self, cost: float) -> None:
        """Seconds that went into pictures, of whichever slots"""
        self._earned -= cost

    def due_at(self, wanted: Iterable[int], now: float) -> float:
        """When to look again"""
        affordable = now + max(0.0, -self._earned) / self.budget
        return max(affordable, min((self._next_at.get(slot, now) for slot in wanted), default=now))
