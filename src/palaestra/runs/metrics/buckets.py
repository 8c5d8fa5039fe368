"""A curve in as many stretches as a chart has room for. No minimum and no maximum is ever lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Blocks = NDArray[Any]  # of BLOCK
    Points = NDArray[Any]  # of POINT or of INTERVAL_POINT

Axis = Literal["step", "time"]
COLUMN = {"step": "step", "time": "at"}
LARGEST = 1 << 62  # with room to either side of it


@dataclass(frozen=True)
class SeriesBuckets:
    """Columns of equal length. Numbers that are not finite are counted apart, so that one bad point hides nothing."""

    x: Floats  # step, or seconds since 1970: of the point, or the middle between the first and the last of a stretch
    min: Floats  # NaN where no point is finite
    max: Floats
    mean: Floats
    count: Counts  # of finite points
    bad: Counts  # of points that are NaN or infinite


def to_buckets(blocks: Blocks, count: int, axis: Axis = "step") -> SeriesBuckets:
    """At most `count` stretches of equal width between the first and the last, `blocks` being in the order of x.

    A block belongs to the stretch in which it begins. Where there are no more blocks than that, each stands for itself.
    """
    side = COLUMN[axis]
    if len(blocks) > max(1, count):
        blocks = join_blocks(blocks, _bucket_starts(np.ascontiguousarray(blocks[f"first_{side}"]), max(1, count)))
    first, last = blocks[f"first_{side}"], blocks[f"last_{side}"]
    counts = blocks["count"].astype(np.int64)
    mean = np.clip(blocks["total"] / np.maximum(counts, 1), blocks["low"], blocks["high"])
    return SeriesBuckets(
        first + (last - first) / 2,
        blocks["low"].copy(),
        blocks["high"].copy(),
        np.where(counts > 0, mean, np.nan),
        counts,
        blocks["bad"].astype(np.int64),
    )


def _bucket_starts(x: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Where each stretch that holds something begins. Exact for steps: whole numbers, no rounding."""
    if np.issubdtype(x.dtype, np.integer):
        first, width = int(x[0]), int(x[-1]) - int(x[0]) + 1
        numbers = np.arange(count, dtype=np.int64 if width * count < LARGEST else object)
        edges = (first - (-numbers * width // count)).astype(x.dtype)
    else:
        edges = np.linspace(x[0], x[-1], count + 1)[:-1]
    places = np.searchsorted(x, edges, side="left")
    found: NDArray[np.intp] = places[np.append(True, places[1:] != places[:-1])]
    return found


BLOCK = np.dtype(
    [
        ("first_step", "<i8"),
        ("last_step", "<i8"),
        ("first_at", "<f8"),
        ("last_at", "<f8"),
        ("low", "<f8"),  # NaN where no point is finite
        ("high", "<f8"),
        ("total", "<f8"),  # of the finite points
        ("count", "<i4"),  # of the finite points
        ("bad", "<i4"),  # of those that are NaN or infinite; counted apart, so that one bad point hides nothing
    ]
)


def single_blocks(points: Points) -> Blocks:
    """Every point a block of its own."""
    blocks = np.empty(len(points), BLOCK)
    values = points["value"]
    blocks["first_step"] = blocks["last_step"] = points["step"]
    blocks["first_at"] = blocks["last_at"] = points["at"]
    if points.dtype == INTERVAL_POINT:
        for column in ("count", "bad"):
            blocks[column] = points[column]
        for column in ("low", "high"):  # of a single value that is infinite it is that
            blocks[column] = np.where(points["count"] > 0, points[column], np.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            blocks["total"] = np.where(points["count"] > 0, values * points["count"], 0.0)
        return blocks
    is_finite = np.isfinite(values)
    blocks["low"] = blocks["high"] = np.where(is_finite, values, np.nan)
    blocks["total"] = np.where(is_finite, values, 0.0)
    blocks["count"] = is_finite
    blocks["bad"] = ~is_finite
    return blocks


def join_blocks(blocks: Blocks, starts: NDArray[np.intp]) -> Blocks:
    """One block of each stretch that begins there and goes to the next beginning."""
    if len(starts) == 0:
        return blocks[:0]
    ends = np.append(starts[1:], len(blocks)) - 1
    result = np.empty(len(starts), BLOCK)
    for side in ("step", "at"):
        result[f"first_{side}"] = blocks[f"first_{side}"][starts]
        result[f"last_{side}"] = blocks[f"last_{side}"][ends]
    result["low"] = np.fmin.reduceat(blocks["low"], starts)
    result["high"] = np.fmax.reduceat(blocks["high"], starts)
    with np.errstate(over="ignore"):  # a sum beyond all bounds; the mean is kept between minimum and maximum
        result["total"] = np.add.reduceat(blocks["total"], starts)
    result["count"] = np.add.reduceat(blocks["count"], starts)
    result["bad"] = np.add.reduceat(blocks["bad"], starts)
    return result


def join_every(blocks: Blocks, size: int) -> Blocks:
    """`size` at a time; the last one may be of fewer."""
    return join_blocks(blocks, np.arange(0, len(blocks), size))


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


def merge_points(old: Points, new: Points) -> Points:
    """Both, sorted by step; of two points of one step the later one counts, as in `metrics.db`."""
    both: Points = np.concatenate([old, new])
    both = both[np.argsort(both["step"], kind="stable")]
    is_last_word = np.append(both["step"][1:] != both["step"][:-1], np.ones(min(1, len(both)), bool))
    last_points: Points = both[is_last_word]
    return last_points


def is_appendable(last_step: int | None, new: Points) -> bool:
    """Whether `new` can simply be put behind what ends at `last_step`"""
    steps = new["step"]
    if last_step is not None and steps[0] <= last_step:
        return False
    return bool(np.all(steps[1:] > steps[:-1]))


def select_range(points: Points, axis: str, start: float | None, end: float | None) -> Points:
    """Those with start <= x <= end, in the order of x."""
    x = points["step" if axis == "step" else "at"]
    is_wanted = (x >= (-np.inf if start is None else start)) & (x <= (np.inf if end is None else end))
    wanted: Points = points[is_wanted]
    if axis != "step":  # a judgement comes late, and clocks jump
        wanted = wanted[np.argsort(wanted["at"], kind="stable")]
    return wanted
