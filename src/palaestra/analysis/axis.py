"""From numbers to places on paper: round ticks, and how they are written."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high` on the stretch from `start` to `end`, in pixels."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round numbers within, about `count` of them."""
        step = round_step((self.high - self.low) / count)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def make_axis(values: list[float], start: float, end: float, margin: float = 0.04) -> Axis:
    """Wide enough for all values, with some room; values that are all alike get a stretch around them."""
    low, high = min(values), max(values)
    room = (high - low) * margin if high > low else max(abs(high) * 0.1, 1.0)
    return Axis(low - room, high + room, start, end)


def round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def shown(value: float) -> str:
    """Short: 1.5M, 20k, 0.25."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            scale = 1e3 if unit == "k" else limit
            return f"{value / scale:.4g}{unit}"
    return f"{value:.4g}"
