"""A cache of metric curves for charts: one set of files per name, stored by the daemon.

`metrics.db` is clustered by step, because that is what costs a training least; one curve of it means reading it all.
So the server stores a copy by name, appends new samples, and rebuilds it when samples were removed (a run resumed from
a checkpoint) or a file does not verify. The cache can be deleted at any time. Only one process at a time may use it.
"""

from __future__ import annotations

import itertools
import logging
import math
import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from palaestra.core.errors import DamagedFile, NotFound, PalaestraError, did_you_mean
from palaestra.runs.files import finite, read_json, sweep_temporaries, write_json
from palaestra.runs.metrics.buckets import INTERVAL_POINT, select_range, single_blocks, to_buckets
from palaestra.runs.metrics.curve_files import LEVELS, Curve, Extent, add_points, verify, window
from palaestra.runs.metrics.reader import MetricsReader, Point, WrittenSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.metrics.buckets import Axis, Points, SeriesBuckets

    Result = TypeVar("Result")
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

ROW = np.dtype([("key", "<i8"), *((name, INTERVAL_POINT[name]) for name in INTERVAL_POINT.names or ())])
ROWS_AT_ONCE = 50_000  # 2.8 MB
SAMPLES_PER_TRANSACTION = 1000  # in one transaction: a resumed run must wait until no process reads its closed file
STABLE_SECONDS = 1.0  # a file that changed less than this before it was read may have changed again since
SAVE_SECONDS = 10.0  # what was added meanwhile is read once more by the next daemon, should this one be killed


@dataclass
class _CachedRun:
    """What this process knows about the curves of one run."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    index: CurveIndex | None = None
    saved: CurveIndex | None = None  # as it stands on the disk
    saved_at: float = 0.0
    file_state: tuple[object, ...] = ()  # the state of the files when they were last read
    verified: set[str] = field(default_factory=set)  # names whose files were read back as a whole


class CurveCache:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._cached_runs: dict[str, _CachedRun] = {}
        self._lock = threading.Lock()
        self._is_warned = False

    def newest(self, directory: RunDirectory) -> dict[str, Point]:
        """Every name with its newest point."""

        def read(cached: _CachedRun) -> dict[str, Point]:
            curves = self._refreshed(directory, cached).curves
            return {name: Point(last[0], last[2]) for name in sorted(curves) if (last := curves[name].last)}

        return self._with_fallback(directory, read, lambda: _newest_in_database(directory))

    def chart(
        self,
        directory: RunDirectory,
        name: str,
        count: int,
        axis: Axis = "step",
        start: float | None = None,
        end: float | None = None,
    ) -> SeriesBuckets:
        """One curve as of now, in at most `count` stretches, of the points with start <= x <= end."""

        def read(cached: _CachedRun) -> SeriesBuckets:
            curve = self._curve(directory, cached, name)
            return to_buckets(window(self._root / directory.id, curve, count, axis, start, end), count, axis)

        def from_database() -> SeriesBuckets:
            return to_buckets(
                single_blocks(select_range(_read_database(directory, name), axis, start, end)), count, axis
            )

        return self._with_fallback(directory, read, from_database)

    def refresh(self, directory: RunDirectory) -> None:
        """Bring it up to date and read it back, so that the next who asks need not wait."""
        cached = self._cached_run(directory.id)
        with cached.lock:
            for name in self._refreshed(directory, cached).curves:
                self._curve(directory, cached, name)
            self._save(directory, cached)

    def remove(self, run_id: str) -> None:
        """The run was removed."""
        with self._lock:
            self._cached_runs.pop(run_id, None)
        shutil.rmtree(self._root / run_id, ignore_errors=True)

    def _with_fallback(
        self, directory: RunDirectory, read: Callable[[_CachedRun], Result], fallback: Callable[[], Result]
    ) -> Result:
        """Reads the run's metrics.db instead, if the disk has no room for the cache."""
        cached = self._cached_run(directory.id)
        with cached.lock:
            try:
                return read(cached)
            except OSError as error:
                if not self._is_warned:
                    logger.warning("No curves can be kept in %s (%s); charts come from the runs.", self._root, error)
                self._is_warned = True
                cached.index, cached.file_state = None, ()
        return fallback()

    def _cached_run(self, run_id: str) -> _CachedRun:
        with self._lock:
            return self._cached_runs.setdefault(run_id, _CachedRun())

    def _curve(self, directory: RunDirectory, cached: _CachedRun, name: str) -> Curve:
        """Whose files are as they were written; begun anew where they are not."""
        index = self._refreshed(directory, cached)
        try:
            if name in index.curves and name not in cached.verified:
                verify(self._root / directory.id, index.curves[name])
        except DamagedFile as error:
            logger.info("The curves of %s are laid out anew: %s", directory.id, error.message)
            cached.index = index = self._catch_up(directory, cached, None)
        if name not in index.curves:
            raise _unknown(name, sorted(index.curves), directory)
        cached.verified.add(name)
        return index.curves[name]

    def _refreshed(self, directory: RunDirectory, cached: _CachedRun) -> CurveIndex:
        if cached.index is None:
            sweep_temporaries(self._root / directory.id)  # of a daemon that was killed
            cached.index = cached.saved = read_index(self._root / directory.id)
        state = _file_state(directory.metrics_file)
        if cached.index is None or cached.file_state != state:
            try:
                cached.index = self._catch_up(directory, cached, cached.index)
            except DamagedFile:
                if cached.index is None:
                    raise
                cached.index = self._catch_up(directory, cached, None)
            cached.file_state = state
            if time.monotonic() > cached.saved_at + SAVE_SECONDS:
                self._save(directory, cached)
        return cached.index

    def _save(self, directory: RunDirectory, cached: _CachedRun) -> None:
        if cached.index is not None and cached.index != cached.saved:
            write_index(self._root / directory.id, cached.index)
            cached.saved = cached.index
        cached.saved_at = time.monotonic()

    def _catch_up(self, directory: RunDirectory, cached: _CachedRun, index: CurveIndex | None) -> CurveIndex:
        folder = self._root / directory.id
        identity = directory.metrics_file.stat().st_ino if directory.metrics_file.exists() else 0
        with MetricsReader(directory.metrics_file) as reader:
            goal = reader.newest_sample()  # what is written meanwhile is for the next time
            while True:
                with reader.consistent_snapshot():
                    if index is None or index.identity != identity or not _is_unchanged(reader, index.furthest):
                        cached.verified.clear()
                        shutil.rmtree(folder, ignore_errors=True)
                        index = CurveIndex(identity=identity)
                    newest = reader.newest_sample()
                    if index.newest_sample != newest:
                        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                        index = _add_samples(folder, reader, index, cached.verified)
                    if index.newest_sample >= min(goal, newest):
                        return index


def _add_samples(folder: Path, reader: MetricsReader, index: CurveIndex, verified: set[str]) -> CurveIndex:
    """The index with the next samples. New names need no verification, because this process wrote them."""
    after, keys, curves = index.newest_sample, reader.keys(), {**index.curves}
    until = reader.nth_sample(after, SAMPLES_PER_TRANSACTION)
    rows = reader.raw_points(after, until)
    # Straight into an array: a list of rows takes 250 bytes for each, and a daemon that has had it once keeps it.
    while len(batch := np.fromiter(itertools.islice(rows, ROWS_AT_ONCE), ROW)):
        for key, points in _by_key(batch):
            name, is_metric = keys[key]
            curve = curve_for(curves, name, is_metric)
            if curve is not None:
                if not curve.points.count:
                    verified.add(name)
                curves[name] = add_points(folder, curve, points)
    furthest = reader.furthest_sample(after, until)
    if furthest is None or (index.furthest is not None and furthest.step < index.furthest.step):
        furthest = index.furthest
    return replace(index, curves=curves, furthest=furthest, newest_sample=until)


def _by_key(rows: Points) -> Iterator[tuple[int, Points]]:
    """The points of each name, in the order in which they came."""
    rows = rows[np.argsort(rows["key"], kind="stable")]
    keys, starts = np.unique(rows["key"], return_index=True)
    points = np.empty(len(rows), INTERVAL_POINT)
    for column in INTERVAL_POINT.names or ():
        points[column] = rows[column]
    yield from zip(keys.tolist(), np.split(points, starts[1:]), strict=True)


def _read_database(directory: RunDirectory, name: str) -> Points:
    """From the database itself: right, and slow."""
    with MetricsReader(directory.metrics_file) as reader, reader.consistent_snapshot():
        keys = {key: is_metric for key, (word, is_metric) in reader.keys().items() if word == name}
        if not keys:
            raise _unknown(name, reader.names(), directory)
        wanted = max(keys, key=lambda key: keys[key])
        rows = [row[1:] for row in reader.raw_points() if row[0] == wanted]
    return np.fromiter(rows, INTERVAL_POINT, len(rows))


def _newest_in_database(directory: RunDirectory) -> dict[str, Point]:
    with MetricsReader(directory.metrics_file) as reader:
        found = {name: reader.last(name) for name in reader.names()}
    return {name: point for name, point in found.items() if point is not None}


def _unknown(name: str, known: list[str], directory: RunDirectory) -> NotFound:
    hint = did_you_mean(name, known) or f"Known: {', '.join(known[:20]) or 'none yet'}."
    return NotFound(f"No metric named '{name}' in run {directory.id}.", hint)


def _is_unchanged(reader: MetricsReader, furthest: WrittenSample | None) -> bool:
    return furthest is None or reader.sample(furthest.sample) == furthest


def _file_state(metrics_file: Path) -> tuple[object, ...]:
    """Equal to an earlier one when nothing was written in between; a fresh one is equal to none."""
    state: list[object] = []
    for path in (metrics_file, metrics_file.with_name(f"{metrics_file.name}-wal")):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        if time.time() - found.st_mtime < STABLE_SECONDS:
            return (object(),)
        state += [path.name, found.st_ino, found.st_size, found.st_mtime_ns]
    return tuple(state)


FORMAT = 3
INDEX_FILE = "index.json"


@dataclass(frozen=True)
class CurveIndex:
    identity: int  # inode of the database that was read
    newest_sample: int = 0
    furthest: WrittenSample | None = None
    curves: dict[str, Curve] = field(default_factory=dict)

    def with_curve(self, name: str, curve: Curve) -> CurveIndex:
        return replace(self, curves={**self.curves, name: curve})


def curve_for(curves: Mapping[str, Curve], name: str, is_metric: bool) -> Curve | None:
    """The curve that further points of this name go to; None for a timing where there is a metric of that name."""
    known = curves.get(name)
    if known is None:
        return Curve(len(curves), is_metric)
    if known.is_metric and not is_metric:
        return None
    return known if known.is_metric == is_metric else Curve(known.number, is_metric)


def write_index(folder: Path, index: CurveIndex) -> None:
    content = {
        "format": FORMAT,
        "identity": index.identity,
        "newest": index.newest_sample,
        "furthest": None if index.furthest is None else list(index.furthest),
        "curves": [_encode(name, curve) for name, curve in index.curves.items()],
    }
    write_json(folder / INDEX_FILE, content, durable=False)


def read_index(folder: Path) -> CurveIndex | None:
    """None if there is no valid index; then it is rebuilt."""
    try:
        content = read_json(folder / INDEX_FILE)
        return _decode(content) if content["format"] == FORMAT else None
    except (PalaestraError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _encode(name: str, curve: Curve) -> dict[str, Any]:
    return {
        "name": name,
        "number": curve.number,
        "is_metric": curve.is_metric,
        "extents": [[extent.count, extent.checksum] for extent in (curve.points, *curve.levels)],
        "last": None if curve.last is None else finite(list(curve.last)),
        "is_in_time": curve.is_in_time,
        "has_intervals": curve.has_intervals,
    }


def _decode(content: dict[str, Any]) -> CurveIndex:
    furthest = content["furthest"]
    curves: dict[str, Curve] = {}
    for number, data in enumerate(content["curves"]):
        if data["number"] != number or data["name"] in curves:
            raise ValueError(f"{data['name']} has number {data['number']}")
        curves[str(data["name"])] = _curve(data)
    return CurveIndex(
        identity=int(content["identity"]),
        newest_sample=int(content["newest"]),
        furthest=WrittenSample(int(furthest[0]), int(furthest[1]), float(furthest[2])) if furthest else None,
        curves=curves,
    )


def _curve(data: dict[str, Any]) -> Curve:
    points, *levels = (Extent(int(count), int(checksum)) for count, checksum in data["extents"])
    if len(levels) != len(LEVELS):
        raise ValueError(f"{len(levels)} levels")
    last = None
    if data["last"] is not None:
        step, at, value = data["last"]
        last = (int(step), float(at), math.nan if value == "NaN" else float(value))
    flags = bool(data["is_in_time"]), bool(data["has_intervals"])
    return Curve(int(data["number"]), bool(data["is_metric"]), points, tuple(levels), last, *flags)
