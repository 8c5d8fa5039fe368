"""A curve in as many stretches as a chart has room for. No minimum and no maximum is ever lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from palaestra.runs.series_blocks import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.runs.series_blocks import Blocks

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

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


def bucketed(blocks: Blocks, count: int, axis: Axis = "step") -> SeriesBuckets:
    """At most `count` stretches of equal width between the first and the last, `blocks` being in the order of x.

    A block belongs to the stretch in which it begins. Where there are no more blocks than that, each stands for itself.
    """
    side = COLUMN[axis]
    if len(blocks) > max(1, count):
        blocks = joined(blocks, _beginnings(np.ascontiguousarray(blocks[f"first_{side}"]), max(1, count)))
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


def _beginnings(x: NDArray[Any], count: int) -> NDArray[np.intp]:
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
