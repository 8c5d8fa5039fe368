"""Time as a value that can be handed in, so that a test can make it jump."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970; may jump. For showing, never for measuring."""
        ...

    def monotonic(self) -> float:
        """Seconds since some start; never goes back. For measuring."""
        ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
