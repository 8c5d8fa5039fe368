"""The files of one curve: its points, and the same taken together by 16, 256 and 4096.

A chart of a million points so reads a few thousand rows, and is the same as if it had read them all.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.runs import series_file
from palaestra.runs.series_blocks import BLOCK, every, single
from palaestra.runs.series_buckets import COLUMN
from palaestra.runs.series_file import Extent, SeriesFile
from palaestra.runs.series_points import (
    INTERVAL_POINT,
    POINT,
    as_interval_points,
    as_points,
    continues,
    cut,
    has_intervals,
    merged,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palaestra.runs.series_blocks import Blocks
    from palaestra.runs.series_buckets import Axis
    from palaestra.runs.series_points import Points

TOGETHER = 16  # rows of one level that make one of the next
LEVELS = (TOGETHER, TOGETHER**2, TOGETHER**3)  # points in a row
EMPTY = Extent()
NOTHING = np.empty(0, BLOCK)
ROWS_PER_BUCKET = 4  # at least: so much finer than the chart is what it is made of


@dataclass(frozen=True)
class Curve:
    number: int  # in the names of its files
    is_metric: bool = True  # else a timing
    points: Extent = EMPTY
    levels: tuple[Extent, ...] = (EMPTY,) * len(LEVELS)
    last: tuple[int, float, float] | None = None  # step, seconds since 1970, value
    is_in_time: bool = True  # no point is older than the one before it
    has_intervals: bool = False  # its points have extremes


def put(place: Path, curve: Curve, new: Points) -> Curve:
    """With further points; `new` is in the order in which they were written."""
    path, widens = _path(place, curve, 0), has_intervals(new) and not curve.has_intervals
    curve = replace(curve, has_intervals=curve.has_intervals or widens)
    shaped = as_interval_points if curve.has_intervals else as_points
    new = shaped(new)
    if continues(curve.last[0] if curve.last else None, new) and not (widens and curve.points.count):
        points = series_file.append(path, curve.points, new)
        levels = curve.levels
    else:
        old = shaped(_read_points(place, replace(curve, has_intervals=False) if widens else curve))
        new = merged(old, new)
        points = series_file.replace(path, new)
        curve = Curve(curve.number, curve.is_metric, has_intervals=curve.has_intervals)
        levels = curve.levels
    times = new["at"] if curve.last is None else np.append(curve.last[1], new["at"])
    is_in_time = curve.is_in_time and bool(np.all(times[1:] >= times[:-1]))
    step, at, value, *_ = new[-1].tolist()
    last = (int(step), float(at), float(value))
    grown = replace(curve, points=points, levels=levels, last=last, is_in_time=is_in_time)
    return grown if (raised := _raised(place, grown)) == levels else replace(grown, levels=raised)


def verify(place: Path, curve: Curve) -> None:
    for depth in range(len(LEVELS) + 1):
        if _extent(curve, depth).count:
            with _opened(place, curve, depth) as file:
                file.verify()


def window(
    place: Path, curve: Curve, buckets: int, axis: Axis = "step", start: float | None = None, end: float | None = None
) -> Blocks:
    """Blocks in the order of x, of all points with start <= x <= end: single ones, or taken together, but never so far
    that fewer than a few would be left for each bucket."""
    if not curve.points.count:
        return np.empty(0, BLOCK)
    if axis == "time" and not curve.is_in_time:
        return single(cut(_read_points(place, curve), axis, start, end))
    column = COLUMN[axis]
    with ExitStack() as stack:
        file = stack.enter_context(_opened(place, curve, 0))
        low = 0 if start is None else file.first_index(column, start)
        high = len(file) if end is None else file.first_index(column, end, beyond=True)
        depth = _depth(high - low, buckets)
        if depth == 0:
            return single(file.read(low, high))
        size = LEVELS[depth - 1]
        first, last = -(-low // size), high // size  # rows that lie in the window as a whole
        level = stack.enter_context(_opened(place, curve, depth))
        spans = ((low, first * size), (last * size, high))
        before, after = (every(single(file.read(*span)), size) if span[0] < span[1] else NOTHING for span in spans)
        return _in_a_row(before, level.read(first, last), after)


def _in_a_row(*parts: Blocks) -> Blocks:
    """As `np.concatenate`, which compares the types of all columns first and takes ten times as long."""
    filled = [part for part in parts if len(part)]
    if len(filled) == 1:
        return filled[0]
    whole, end = np.empty(sum(map(len, filled)), BLOCK), 0
    for part in filled:
        end += len(part)
        whole[end - len(part) : end] = part
    return whole


def _depth(point_count: int, buckets: int) -> int:
    """How far points may be taken together"""
    return sum(point_count // size >= ROWS_PER_BUCKET * buckets for size in LEVELS)


def _raised(place: Path, curve: Curve) -> tuple[Extent, ...]:
    """Whole rows only: what is left over is read from the level below."""
    for depth, extent in enumerate(curve.levels, 1):
        wanted = _extent(curve, depth - 1).count // TOGETHER
        if wanted == extent.count:
            break  # then there is nothing for the levels above either
        with _opened(place, curve, depth - 1) as file:
            for rows in _pieces(file, extent.count * TOGETHER, wanted * TOGETHER):
                blocks = every(single(rows) if depth == 1 else rows, TOGETHER)
                extent = series_file.append(_path(place, curve, depth), extent, blocks)
        curve = replace(curve, levels=(*curve.levels[: depth - 1], extent, *curve.levels[depth:]))
    return curve.levels


def _pieces(file: SeriesFile, start: int, stop: int, rows: int = TOGETHER**4) -> Iterator[Points]:
    for begin in range(start, stop, rows):
        yield file.read(begin, min(stop, begin + rows))


def _read_points(place: Path, curve: Curve) -> Points:
    if not curve.points.count:
        return np.empty(0, _point_type(curve))
    with _opened(place, curve, 0) as file:
        file.verify()  # what is written anew from it would seem to be whole
        return file.read()


def _opened(place: Path, curve: Curve, depth: int) -> SeriesFile:
    return SeriesFile(_path(place, curve, depth), _extent(curve, depth), BLOCK if depth else _point_type(curve))


def _point_type(curve: Curve) -> np.dtype[Any]:
    return INTERVAL_POINT if curve.has_intervals else POINT


def _extent(curve: Curve, depth: int) -> Extent:
    return curve.levels[depth - 1] if depth else curve.points


def _path(place: Path, curve: Curve, depth: int) -> Path:
    return place / (f"{curve.number}.by{LEVELS[depth - 1]}" if depth else f"{curve.number}.points")
