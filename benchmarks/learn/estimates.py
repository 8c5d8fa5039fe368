"""Means over training seeds, how sure they are, and whether two of them differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, variance
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean and half the width of its 95 % interval; infinite when one sample says nothing about the spread."""

    mean: float
    half_width: float

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


def estimate(samples: Sequence[float]) -> Estimate:
    """Student's interval; `samples` are one number per training seed, never per episode."""
    if len(samples) < 2:
        return Estimate(fmean(samples), math.inf)
    error = math.sqrt(variance(samples) / len(samples))
    return Estimate(fmean(samples), student_quantile(len(samples) - 1) * error)


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Ours minus theirs, with Welch's interval: the two sides need not spread alike."""
    gap = fmean(ours) - fmean(theirs)
    if min(len(ours), len(theirs)) < 2:
        return Estimate(gap, math.inf)
    parts = [(variance(side) / len(side), len(side) - 1) for side in (ours, theirs)]
    total = sum(part for part, _ in parts)
    if total == 0:
        return Estimate(gap, 0.0)
    freedom = total**2 / sum(part**2 / degrees for part, degrees in parts)
    return Estimate(gap, student_quantile(freedom) * math.sqrt(total))


def verdict(gap: Estimate) -> str:
    """What may be said of ours minus theirs."""
    if gap.low > 0:
        return "better"
    if gap.high < 0:
        return "worse"
    return "equal" if gap.mean == 0 else "equal, above" if gap.mean > 0 else "equal, below"


def student_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """The x with P(|t| < x) = confidence, by bisection; SciPy would be a big guest for one number."""
    low, high = 0.0, 1.0
    while student_mass(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_mass(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def student_mass(bound: float, freedom: float) -> float:
    """P(|t| < bound). With t = sqrt(freedom) tan(a) the density is a power of a cosine; Simpson does the rest."""
    top, pieces = math.atan(bound / math.sqrt(freedom)), 400
    heights = [math.cos(top * piece / pieces) ** (freedom - 1) for piece in range(pieces + 1)]
    area = top / pieces / 3 * (heights[0] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]) + heights[-1])
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(math.pi)
    return 2 * math.exp(log_scale) * area
