"""The value of a schedule, as a pure function of how far training has come."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.config.schedule import Schedule


def value_at(schedule: Schedule, progress: float) -> float:
    """`progress` goes from 0 at the first step to 1 at the last; beyond 1 the end value holds."""
    start, end = schedule.start, schedule.end
    if schedule.kind == "constant":
        return start
    done = min(max(progress, 0.0), 1.0)
    match schedule.kind:
        case "linear":
            return start + (end - start) * done
        case "cosine":
            return end + (start - end) * 0.5 * (1 + math.cos(math.pi * done))
        case "exponential":
            return float(start * (end / start) ** done)
