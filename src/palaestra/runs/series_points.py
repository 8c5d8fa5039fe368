"""The points of one curve as an array, in the order of their steps.

A point is a single value, or an interval of them: of a curve that has intervals, all points have their extremes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Points = NDArray[Any]  # of POINT or of INTERVAL_POINT

POINT = np.dtype([("step", "<i8"), ("at", "<f8"), ("value", "<f8")])  # at: seconds since 1970; value: NaN is NaN
INTERVAL_POINT = np.dtype(
    [
        *((name, POINT[name]) for name in POINT.names or ()),
        ("low", "<f8"),  # NaN where no value is finite
        ("high", "<f8"),
        ("count", "<i4"),  # of finite values
        ("bad", "<i4"),  # of values that are NaN or infinite
    ]
)


def has_intervals(points: Points) -> bool:
    return points.dtype == INTERVAL_POINT and bool(np.any(points["count"] + points["bad"] > 1))


def as_points(points: Points) -> Points:
    """Without extremes, for a curve that needs none: half the bytes."""
    return _copied(points, POINT)


def as_interval_points(points: Points) -> Points:
    if points.dtype == INTERVAL_POINT:
        return points
    wide = _copied(points, INTERVAL_POINT)
    is_finite = np.isfinite(points["value"])
    wide["low"] = wide["high"] = np.where(is_finite, points["value"], np.nan)
    wide["count"], wide["bad"] = is_finite, ~is_finite
    return wide


def _copied(points: Points, kind: np.dtype[Any]) -> Points:
    copy = np.empty(len(points), kind)
    for column in POINT.names or ():
        copy[column] = points[column]
    return copy


def merged(old: Points, new: Points) -> Points:
    """Both, sorted by step; where two speak of one step the later word counts, as it does in `metrics.db`."""
    both: Points = np.concatenate([old, new])
    both = both[np.argsort(both["step"], kind="stable")]
    is_last_word = np.append(both["step"][1:] != both["step"][:-1], np.ones(min(1, len(both)), bool))
    kept: Points = both[is_last_word]
    return kept


def continues(last_step: int | None, new: Points) -> bool:
    """Whether `new` can simply be put behind what ends at `last_step`"""
    steps = new["step"]
    if last_step is not None and steps[0] <= last_step:
        return False
    return bool(np.all(steps[1:] > steps[:-1]))


def cut(points: Points, axis: str, start: float | None, end: float | None) -> Points:
    """Those with start <= x <= end, in the order of x."""
    x = points["step" if axis == "step" else "at"]
    is_wanted = (x >= (-np.inf if start is None else start)) & (x <= (np.inf if end is None else end))
    wanted: Points = points[is_wanted]
    if axis != "step":  # a judgement comes late, and clocks jump
        wanted = wanted[np.argsort(wanted["at"], kind="stable")]
    return wanted
