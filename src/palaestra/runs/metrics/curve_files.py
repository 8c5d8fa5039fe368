"""The files of one curve: its points, and the same taken together by 16, 256 and 4096.

A chart of a million points so reads a few thousand rows, and is the same as if it had read them all.
"""

from __future__ import annotations

import os
import zlib
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.errors import DamagedFile
from palaestra.runs.files import write_atomic
from palaestra.runs.metrics.buckets import (
    BLOCK,
    COLUMN,
    INTERVAL_POINT,
    POINT,
    as_interval_points,
    as_points,
    has_intervals,
    is_appendable,
    join_every,
    merge_points,
    select_range,
    single_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from palaestra.runs.metrics.buckets import Axis, Blocks, Points

    Rows = NDArray[Any]
    RowType = np.dtype[Any]

CHUNK_BYTES = 1 << 20
LINEAR_SEARCH_ROWS = 512  # rows: to read them costs no more than to read one


@dataclass(frozen=True)
class Extent:
    """What of a file counts; bytes behind it are the beginning of something that was never finished."""

    count: int = 0  # rows
    checksum: int = 0  # crc-32 of their bytes


def append_rows(path: Path, extent: Extent, rows: Rows) -> Extent:
    """Behind what counts already; nothing of that is touched."""
    data = rows.tobytes()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        written = os.pwrite(descriptor, data, extent.count * rows.dtype.itemsize)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes could be written to {path}")
    finally:
        os.close(descriptor)
    return Extent(extent.count + len(rows), zlib.crc32(data, extent.checksum))


def replace_rows(path: Path, rows: Rows) -> Extent:
    """Writes a new file; readers of the old one can read it to its end."""
    data = rows.tobytes()
    write_atomic(path, data, durable=False)
    return Extent(len(rows), zlib.crc32(data))


class CurveFile:
    """Open for reading; made for a `with` block."""

    def __init__(self, path: Path, extent: Extent, kind: RowType) -> None:
        self._path = path
        self._extent = extent
        self._kind = kind
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise DamagedFile(f"{path} cannot be opened: {error.strerror}.") from error

    def __enter__(self) -> CurveFile:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)

    def __len__(self) -> int:
        return self._extent.count

    def read(self, start: int = 0, stop: int | None = None) -> Rows:
        """Rows from `start` to before `stop`; `DamagedFile` when they are not all there."""
        stop = self._extent.count if stop is None else min(stop, self._extent.count)
        size = max(0, stop - start) * self._kind.itemsize
        data = os.pread(self._descriptor, size, start * self._kind.itemsize)
        if len(data) != size:
            raise DamagedFile(f"{self._path} ends before the {self._extent.count} rows that it should have.")
        return np.frombuffer(data, self._kind)

    def verify(self) -> None:
        """Every byte that counts: a millisecond per megabyte. A process needs to do it once."""
        left, position, checksum = self._extent.count * self._kind.itemsize, 0, 0
        while left:
            piece = os.pread(self._descriptor, min(CHUNK_BYTES, left), position)
            if not piece:
                raise DamagedFile(f"{self._path} ends before the {self._extent.count} rows that it should have.")
            checksum = zlib.crc32(piece, checksum)
            position, left = position + len(piece), left - len(piece)
        if checksum != self._extent.checksum:
            raise DamagedFile(f"{self._path}: its bytes are not those that were written.")

    def first_index(self, column: str, value: float, *, beyond: bool = False) -> int:
        """Of the first row whose column (in rising order) is at least `value`, or `beyond` it. A few tiny reads."""
        low, high = 0, self._extent.count
        while high - low > LINEAR_SEARCH_ROWS:
            middle = (low + high) // 2
            found = self.read(middle, middle + 1)[column][0]
            if found < value or (beyond and found == value):
                low = middle + 1
            else:
                high = middle
        rest = np.ascontiguousarray(self.read(low, high)[column])
        return low + int(np.searchsorted(rest, value, side="right" if beyond else "left"))


GROUP_SIZE = 16  # rows of one level that make one of the next
LEVELS = (GROUP_SIZE, GROUP_SIZE**2, GROUP_SIZE**3)  # points in a row
EMPTY_EXTENT = Extent()
NO_BLOCKS = np.empty(0, BLOCK)
ROWS_PER_BUCKET = 4  # at least: so much finer than the chart is what it is made of


@dataclass(frozen=True)
class Curve:
    number: int  # in the names of its files
    is_metric: bool = True  # else a timing
    points: Extent = EMPTY_EXTENT
    levels: tuple[Extent, ...] = (EMPTY_EXTENT,) * len(LEVELS)
    last: tuple[int, float, float] | None = None  # step, seconds since 1970, value
    is_in_time: bool = True  # no point is older than the one before it
    has_intervals: bool = False  # its points have extremes


def add_points(folder: Path, curve: Curve, new: Points) -> Curve:
    """With further points; `new` is in the order in which they were written."""
    path, adds_ranges = _path(folder, curve, 0), has_intervals(new) and not curve.has_intervals
    curve = replace(curve, has_intervals=curve.has_intervals or adds_ranges)
    shaped = as_interval_points if curve.has_intervals else as_points
    new = shaped(new)
    if is_appendable(curve.last[0] if curve.last else None, new) and not (adds_ranges and curve.points.count):
        points = append_rows(path, curve.points, new)
        levels = curve.levels
    else:
        old = shaped(_read_points(folder, replace(curve, has_intervals=False) if adds_ranges else curve))
        new = merge_points(old, new)
        points = replace_rows(path, new)
        curve = Curve(curve.number, curve.is_metric, has_intervals=curve.has_intervals)
        levels = curve.levels
    times = new["at"] if curve.last is None else np.append(curve.last[1], new["at"])
    is_in_time = curve.is_in_time and bool(np.all(times[1:] >= times[:-1]))
    step, at, value, *_ = new[-1].tolist()
    last = (int(step), float(at), float(value))
    grown = replace(curve, points=points, levels=levels, last=last, is_in_time=is_in_time)
    return grown if (raised := _extend_levels(folder, grown)) == levels else replace(grown, levels=raised)


def verify(folder: Path, curve: Curve) -> None:
    for depth in range(len(LEVELS) + 1):
        if _extent(curve, depth).count:
            with _open(folder, curve, depth) as file:
                file.verify()


def window(
    folder: Path, curve: Curve, buckets: int, axis: Axis = "step", start: float | None = None, end: float | None = None
) -> Blocks:
    """Blocks in the order of x, of all points with start <= x <= end: single ones, or taken together, but never so far
    that fewer than a few would be left for each bucket."""
    if not curve.points.count:
        return np.empty(0, BLOCK)
    if axis == "time" and not curve.is_in_time:
        return single_blocks(select_range(_read_points(folder, curve), axis, start, end))
    column = COLUMN[axis]
    with ExitStack() as stack:
        file = stack.enter_context(_open(folder, curve, 0))
        low = 0 if start is None else file.first_index(column, start)
        high = len(file) if end is None else file.first_index(column, end, beyond=True)
        depth = _depth(high - low, buckets)
        if depth == 0:
            return single_blocks(file.read(low, high))
        size = LEVELS[depth - 1]
        first, last = -(-low // size), high // size  # rows that lie in the window as a whole
        level = stack.enter_context(_open(folder, curve, depth))
        spans = ((low, first * size), (last * size, high))
        before, after = (
            join_every(single_blocks(file.read(*span)), size) if span[0] < span[1] else NO_BLOCKS for span in spans
        )
        return _concatenate(before, level.read(first, last), after)


def _concatenate(*parts: Blocks) -> Blocks:
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


def _extend_levels(folder: Path, curve: Curve) -> tuple[Extent, ...]:
    """Whole rows only: what is left over is read from the level below."""
    for depth, extent in enumerate(curve.levels, 1):
        wanted = _extent(curve, depth - 1).count // GROUP_SIZE
        if wanted == extent.count:
            break  # then there is nothing for the levels above either
        with _open(folder, curve, depth - 1) as file:
            for rows in _pieces(file, extent.count * GROUP_SIZE, wanted * GROUP_SIZE):
                blocks = join_every(single_blocks(rows) if depth == 1 else rows, GROUP_SIZE)
                extent = append_rows(_path(folder, curve, depth), extent, blocks)
        curve = replace(curve, levels=(*curve.levels[: depth - 1], extent, *curve.levels[depth:]))
    return curve.levels


def _pieces(file: CurveFile, start: int, stop: int, rows: int = GROUP_SIZE**4) -> Iterator[Points]:
    for begin in range(start, stop, rows):
        yield file.read(begin, min(stop, begin + rows))


def _read_points(folder: Path, curve: Curve) -> Points:
    if not curve.points.count:
        return np.empty(0, _point_type(curve))
    with _open(folder, curve, 0) as file:
        file.verify()  # what is written anew from it would seem to be whole
        return file.read()


def _open(folder: Path, curve: Curve, depth: int) -> CurveFile:
    return CurveFile(_path(folder, curve, depth), _extent(curve, depth), BLOCK if depth else _point_type(curve))


def _point_type(curve: Curve) -> np.dtype[Any]:
    return INTERVAL_POINT if curve.has_intervals else POINT


def _extent(curve: Curve, depth: int) -> Extent:
    return curve.levels[depth - 1] if depth else curve.points


def _path(folder: Path, curve: Curve, depth: int) -> Path:
    return folder / (f"{curve.number}.by{LEVELS[depth - 1]}" if depth else f"{curve.number}.points")
