"""Which rank the others wait for. Every gradient is waited for by all, so one slow machine sets the pace."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW = 8  # iterations; one that was slow once (a first compilation, a save) is no straggler
TIMES_SLOWER = 2.0
LEAST_SECONDS = 0.05  # per iteration; below it nobody would notice


@dataclass(frozen=True)
class Straggler:
    rank: int
    seconds: float  # of its own work in one iteration, the median of the window
    others_seconds: float  # of theirs

    def __str__(self) -> str:
        return (
            f"Rank {self.rank} is slow: its own work takes {self.seconds:.2f} s an iteration, that of the others "
            f"{self.others_seconds:.2f} s, and all wait for it. Look at its machine, or at what else runs there."
        )


class StragglerWatch:
    """Tells each straggler once; what the group is given to do does not change."""

    def __init__(self) -> None:
        self._recent: deque[Sequence[float]] = deque(maxlen=WINDOW)
        self._told: set[int] = set()

    def look(self, rank_seconds: Sequence[float]) -> Straggler | None:
        """After every iteration; empty seconds are those of a rank that is not told about the others, or is alone."""
        self._recent.append(rank_seconds)
        if len(self._recent) < WINDOW or len(rank_seconds) < 2:
            return None
        typical = [median(own) for own in zip(*self._recent, strict=True)]
        slowest = max(range(len(typical)), key=typical.__getitem__)
        others = median(typical[:slowest] + typical[slowest + 1 :])
        is_slow = typical[slowest] > TIMES_SLOWER * others and typical[slowest] - others > LEAST_SECONDS
        if not is_slow or slowest in self._told:
            return None
        self._told.add(slowest)
        return Straggler(slowest, round(typical[slowest], 4), round(others, 4))
