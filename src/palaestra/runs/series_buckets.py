"""A curve in as many stretches as a chart has room for. No minimum and no maximum is ever lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.runs.series_points import Points

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

Axis = Literal["step", "time"]


@dataclass(frozen=True)
class SeriesBuckets:
    """Columns of equal length. Numbers that are not finite are counted apart, so that one bad point hides nothing."""

    x: Floats  # step, or seconds since 1970: of the point, or the middle between the first and the last of a stretch
    min: Floats  # NaN where no point is finite
    max: Floats
    mean: Floats
    count: Counts  # of finite points
    bad: Counts  # of points that are NaN or infinite


def bucketed(
    points: Points, count: int, axis: Axis = "step", start: float | None = None, end: float | None = None
) -> SeriesBuckets:
    """At most `count` stretches of equal width between the first and the last point with start <= x <= end.

    Where there are no more points than that, every one of them stands for itself.
    """
    x, values = _columns(points, axis)
    low = 0 if start is None else int(np.searchsorted(x, start, side="left"))
    high = len(x) if end is None else int(np.searchsorted(x, end, side="right"))
    x, values = x[low:high], values[low:high]
    if len(x) <= max(1, count):
        return _one_by_one(x, values)
    with np.errstate(over="ignore"):  # a sum beyond all bounds; the mean stays between minimum and maximum
        return _in_stretches(x, values, _beginnings(x, max(1, count)))


def _columns(points: Points, axis: Axis) -> tuple[NDArray[Any], Floats]:
    """Sorted by x: a judgement comes late, and clocks jump, so that times need not be in the order of the steps."""
    x, values = np.ascontiguousarray(points["step" if axis == "step" else "at"]), np.ascontiguousarray(points["value"])
    if axis == "time" and np.any(x[1:] < x[:-1]):
        order = np.argsort(x, kind="stable")
        x, values = x[order], values[order]
    return x, values


def _beginnings(x: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Where each stretch that holds points begins. Exact for steps: whole numbers, no rounding."""
    if np.issubdtype(x.dtype, np.integer):
        first, width = int(x[0]), int(x[-1]) - int(x[0]) + 1
        edges = np.array([first - (-number * width // count) for number in range(count)], dtype=x.dtype)
    else:
        edges = np.linspace(x[0], x[-1], count + 1)[:-1]
    return np.unique(np.searchsorted(x, edges, side="left"))


def _one_by_one(x: NDArray[Any], values: Floats) -> SeriesBuckets:
    is_finite = np.isfinite(values)
    shown = np.where(is_finite, values, np.nan)
    return SeriesBuckets(
        x.astype(np.float64), shown, shown, shown, is_finite.astype(np.int64), (~is_finite).astype(np.int64)
    )


def _in_stretches(x: NDArray[Any], values: Floats, beginnings: NDArray[np.intp]) -> SeriesBuckets:
    sizes = np.diff(np.append(beginnings, len(x)))
    last = beginnings + sizes - 1
    middle = x[beginnings] + (x[last] - x[beginnings]) / 2
    is_finite = np.isfinite(values)
    if is_finite.all():
        total = np.add.reduceat(values, beginnings)
        low, high = np.minimum.reduceat(values, beginnings), np.maximum.reduceat(values, beginnings)
        return SeriesBuckets(middle, low, high, np.clip(total / sizes, low, high), sizes, np.zeros_like(sizes))
    count = np.add.reduceat(is_finite.astype(np.int64), beginnings)
    known = np.where(is_finite, values, np.nan)
    low, high = np.fmin.reduceat(known, beginnings), np.fmax.reduceat(known, beginnings)
    total = np.add.reduceat(np.where(is_finite, values, 0.0), beginnings)
    mean = np.where(count > 0, np.clip(total / np.maximum(count, 1), low, high), np.nan)
    return SeriesBuckets(middle, low, high, mean, count, sizes - count)
