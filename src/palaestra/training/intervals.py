"""When something is due that happens every so often."""

from __future__ import annotations


def is_due(interval: int, before: int, after: int) -> bool:
    """True when a multiple of `interval` lies in (before, after]: a counter that jumps never misses a firing."""
    return interval > 0 and after // interval > before // interval
