"""Points of a curve, taken together: what a chart needs to know of a stretch, and no less than its extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.runs.series_points import INTERVAL_POINT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.runs.series_points import Points

    Blocks = NDArray[Any]  # of BLOCK

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


def single(points: Points) -> Blocks:
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


def joined(blocks: Blocks, beginnings: NDArray[np.intp]) -> Blocks:
    """One block of each stretch that begins there and goes to the next beginning."""
    if len(beginnings) == 0:
        return blocks[:0]
    ends = np.append(beginnings[1:], len(blocks)) - 1
    result = np.empty(len(beginnings), BLOCK)
    for side in ("step", "at"):
        result[f"first_{side}"] = blocks[f"first_{side}"][beginnings]
        result[f"last_{side}"] = blocks[f"last_{side}"][ends]
    result["low"] = np.fmin.reduceat(blocks["low"], beginnings)
    result["high"] = np.fmax.reduceat(blocks["high"], beginnings)
    with np.errstate(over="ignore"):  # a sum beyond all bounds; the mean is kept between minimum and maximum
        result["total"] = np.add.reduceat(blocks["total"], beginnings)
    result["count"] = np.add.reduceat(blocks["count"], beginnings)
    result["bad"] = np.add.reduceat(blocks["bad"], beginnings)
    return result


def every(blocks: Blocks, size: int) -> Blocks:
    """`size` at a time; the last one may be of fewer."""
    return joined(blocks, np.arange(0, len(blocks), size))
