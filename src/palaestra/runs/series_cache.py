"""Curves laid out for charts: files by name, kept beside the runs by whoever serves them.

`metrics.db` is clustered by step, because that is what costs a training least; one curve of it means reading it all.
So a server keeps a copy by name, adds what was written since it last looked, and begins anew when something was taken
back (a run that goes on from a checkpoint) or does not verify. It is never the truth and can be deleted at any time.
One process at a time may keep a cache.
"""

from __future__ import annotations

import itertools
import logging
import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from palaestra.core.errors import DamagedFile, NotFound, did_you_mean
from palaestra.runs.files import sweep_temporaries
from palaestra.runs.metrics_reader import MetricsReader, Point
from palaestra.runs.series_blocks import single
from palaestra.runs.series_book import SeriesBook, read_book, room_for, write_book
from palaestra.runs.series_buckets import bucketed
from palaestra.runs.series_curve import Curve, put, verify, window
from palaestra.runs.series_points import INTERVAL_POINT, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.metrics_reader import WrittenSample
    from palaestra.runs.series_buckets import Axis, SeriesBuckets
    from palaestra.runs.series_points import Points

    Result = TypeVar("Result")

logger = logging.getLogger(__name__)

ROW = np.dtype([("key", "<i8"), *((name, INTERVAL_POINT[name]) for name in INTERVAL_POINT.names or ())])
ROWS_AT_ONCE = 50_000  # 2.8 MB
SAMPLES_AT_ONCE = 1000  # in one transaction: a run that goes on must wait until nobody reads its file at rest
SETTLED_SECONDS = 1.0  # a file that changed less than this before it was read may have changed again since
SAVE_SECONDS = 10.0  # what was added meanwhile is read once more by the next daemon, should this one be killed


@dataclass
class _Shelf:
    """What this process knows about the curves of one run."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    book: SeriesBook | None = None
    saved: SeriesBook | None = None  # as it stands on the disk
    saved_at: float = 0.0
    seen: tuple[object, ...] = ()  # the state of the files when they were last read
    verified: set[str] = field(default_factory=set)  # names whose files were read back as a whole


class SeriesCache:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._shelves: dict[str, _Shelf] = {}
        self._lock = threading.Lock()
        self._is_warned = False

    def newest(self, directory: RunDirectory) -> dict[str, Point]:
        """Every name with its newest point."""

        def look(shelf: _Shelf) -> dict[str, Point]:
            curves = self._fresh(directory, shelf).curves
            return {name: Point(last[0], last[2]) for name in sorted(curves) if (last := curves[name].last)}

        return self._tried(directory, look, lambda: _newest_straight(directory))

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

        def look(shelf: _Shelf) -> SeriesBuckets:
            curve = self._curve(directory, shelf, name)
            return bucketed(window(self._root / directory.id, curve, count, axis, start, end), count, axis)

        def straight() -> SeriesBuckets:
            return bucketed(single(cut(_straight(directory, name), axis, start, end)), count, axis)

        return self._tried(directory, look, straight)

    def refresh(self, directory: RunDirectory) -> None:
        """Bring it up to date and read it back, so that the next who asks need not wait."""
        shelf = self._shelf(directory.id)
        with shelf.lock:
            for name in self._fresh(directory, shelf).curves:
                self._curve(directory, shelf, name)
            self._save(directory, shelf)

    def forget(self, run_id: str) -> None:
        """The run was removed."""
        with self._lock:
            self._shelves.pop(run_id, None)
        shutil.rmtree(self._root / run_id, ignore_errors=True)

    def _tried(
        self, directory: RunDirectory, look: Callable[[_Shelf], Result], otherwise: Callable[[], Result]
    ) -> Result:
        """Where the disk has no room for us, the run itself is asked."""
        shelf = self._shelf(directory.id)
        with shelf.lock:
            try:
                return look(shelf)
            except OSError as error:
                if not self._is_warned:
                    logger.warning("No curves can be kept in %s (%s); charts come from the runs.", self._root, error)
                self._is_warned = True
                shelf.book, shelf.seen = None, ()
        return otherwise()

    def _shelf(self, run_id: str) -> _Shelf:
        with self._lock:
            return self._shelves.setdefault(run_id, _Shelf())

    def _curve(self, directory: RunDirectory, shelf: _Shelf, name: str) -> Curve:
        """Whose files are as they were written; begun anew where they are not."""
        book = self._fresh(directory, shelf)
        try:
            if name in book.curves and name not in shelf.verified:
                verify(self._root / directory.id, book.curves[name])
        except DamagedFile as error:
            logger.info("The curves of %s are laid out anew: %s", directory.id, error.message)
            shelf.book = book = self._caught_up(directory, shelf, None)
        if name not in book.curves:
            raise _unknown(name, sorted(book.curves), directory)
        shelf.verified.add(name)
        return book.curves[name]

    def _fresh(self, directory: RunDirectory, shelf: _Shelf) -> SeriesBook:
        if shelf.book is None:
            sweep_temporaries(self._root / directory.id)  # of a daemon that was killed
            shelf.book = shelf.saved = read_book(self._root / directory.id)
        state = _state_of(directory.metrics_file)
        if shelf.book is None or shelf.seen != state:
            try:
                shelf.book = self._caught_up(directory, shelf, shelf.book)
            except DamagedFile:
                if shelf.book is None:
                    raise
                shelf.book = self._caught_up(directory, shelf, None)
            shelf.seen = state
            if time.monotonic() > shelf.saved_at + SAVE_SECONDS:
                self._save(directory, shelf)
        return shelf.book

    def _save(self, directory: RunDirectory, shelf: _Shelf) -> None:
        if shelf.book is not None and shelf.book != shelf.saved:
            write_book(self._root / directory.id, shelf.book)
            shelf.saved = shelf.book
        shelf.saved_at = time.monotonic()

    def _caught_up(self, directory: RunDirectory, shelf: _Shelf, book: SeriesBook | None) -> SeriesBook:
        place = self._root / directory.id
        identity = directory.metrics_file.stat().st_ino if directory.metrics_file.exists() else 0
        with MetricsReader(directory.metrics_file) as reader:
            goal = reader.newest_sample()  # what is written meanwhile is for the next time
            while True:
                with reader.one_moment():
                    if book is None or book.identity != identity or not _still_holds(reader, book.furthest):
                        shelf.verified.clear()
                        shutil.rmtree(place, ignore_errors=True)
                        book = SeriesBook(identity=identity)
                    newest = reader.newest_sample()
                    if book.newest_sample != newest:
                        place.mkdir(mode=0o700, parents=True, exist_ok=True)
                        book = _grown(place, reader, book, shelf.verified)
                    if book.newest_sample >= min(goal, newest):
                        return book


def _grown(place: Path, reader: MetricsReader, book: SeriesBook, verified: set[str]) -> SeriesBook:
    """With the samples that were written next. Names that are new were read back by nobody, but written by us."""
    after, keys, curves = book.newest_sample, reader.keys(), {**book.curves}
    until = reader.nth_sample(after, SAMPLES_AT_ONCE)
    rows = reader.raw_points(after, until)
    # Straight into an array: a list of rows takes 250 bytes for each, and a daemon that has had it once keeps it.
    while len(batch := np.fromiter(itertools.islice(rows, ROWS_AT_ONCE), ROW)):
        for key, points in _by_key(batch):
            name, is_metric = keys[key]
            curve = room_for(curves, name, is_metric)
            if curve is not None:
                if not curve.points.count:
                    verified.add(name)
                curves[name] = put(place, curve, points)
    furthest = reader.furthest_sample(after, until)
    if furthest is None or (book.furthest is not None and furthest.step < book.furthest.step):
        furthest = book.furthest
    return replace(book, curves=curves, furthest=furthest, newest_sample=until)


def _by_key(rows: Points) -> Iterator[tuple[int, Points]]:
    """The points of each name, in the order in which they came."""
    rows = rows[np.argsort(rows["key"], kind="stable")]
    keys, beginnings = np.unique(rows["key"], return_index=True)
    points = np.empty(len(rows), INTERVAL_POINT)
    for column in INTERVAL_POINT.names or ():
        points[column] = rows[column]
    yield from zip(keys.tolist(), np.split(points, beginnings[1:]), strict=True)


def _straight(directory: RunDirectory, name: str) -> Points:
    """From the database itself: right, and slow."""
    with MetricsReader(directory.metrics_file) as reader, reader.one_moment():
        keys = {key: is_metric for key, (word, is_metric) in reader.keys().items() if word == name}
        if not keys:
            raise _unknown(name, reader.names(), directory)
        wanted = max(keys, key=lambda key: keys[key])
        rows = [row[1:] for row in reader.raw_points() if row[0] == wanted]
    return np.fromiter(rows, INTERVAL_POINT, len(rows))


def _newest_straight(directory: RunDirectory) -> dict[str, Point]:
    with MetricsReader(directory.metrics_file) as reader:
        found = {name: reader.last(name) for name in reader.names()}
    return {name: point for name, point in found.items() if point is not None}


def _unknown(name: str, known: list[str], directory: RunDirectory) -> NotFound:
    hint = did_you_mean(name, known) or f"Known: {', '.join(known[:20]) or 'none yet'}."
    return NotFound(f"No metric is called '{name}' in run {directory.id}.", hint)


def _still_holds(reader: MetricsReader, furthest: WrittenSample | None) -> bool:
    return furthest is None or reader.sample(furthest.sample) == furthest


def _state_of(metrics_file: Path) -> tuple[object, ...]:
    """Equal to an earlier one when nothing was written in between; a fresh one is equal to none."""
    state: list[object] = []
    for path in (metrics_file, metrics_file.with_name(f"{metrics_file.name}-wal")):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        if time.time() - found.st_mtime < SETTLED_SECONDS:
            return (object(),)
        state += [path.name, found.st_ino, found.st_size, found.st_mtime_ns]
    return tuple(state)
