"""Curves laid out for charts: one file per name, kept beside the runs by whoever serves them.

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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from palaestra.contracts.errors import DamagedFile, NotFound, did_you_mean
from palaestra.runs.metrics_reader import MetricsReader, Point
from palaestra.runs.series_book import SeriesBook, read_book, write_book
from palaestra.runs.series_file import Extent, append, load, replace
from palaestra.runs.series_points import POINT, continues, merged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.metrics_reader import WrittenSample
    from palaestra.runs.series_points import Points

logger = logging.getLogger(__name__)

ROW = np.dtype([("key", "<i8"), *((name, POINT[name]) for name in POINT.names or ())])
ROWS_AT_ONCE = 200_000  # 6 MB
SETTLED_SECONDS = 1.0  # a file that changed less than this before it was read may have changed again since


@dataclass
class _Shelf:
    """What this process knows about the curves of one run."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    book: SeriesBook | None = None
    seen: tuple[object, ...] = ()  # the state of the files when they were last read
    verified: dict[str, Extent] = field(default_factory=dict)


class SeriesCache:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._shelves: dict[str, _Shelf] = {}
        self._lock = threading.Lock()
        self._is_warned = False

    def newest(self, directory: RunDirectory) -> dict[str, Point]:
        """Every name with its newest point."""
        shelf = self._shelf(directory.id)
        with shelf.lock:
            try:
                last = self._fresh(directory, shelf).last
                return {name: Point(last[name][0], last[name][2]) for name in sorted(last)}
            except OSError as error:
                self._warn(error)
                shelf.book, shelf.seen = None, ()
        with MetricsReader(directory.metrics_file) as reader:
            found = {name: reader.last(name) for name in reader.names()}
        return {name: point for name, point in found.items() if point is not None}

    def series(self, directory: RunDirectory, name: str) -> Points:
        """All points of one name, as of now."""
        shelf = self._shelf(directory.id)
        with shelf.lock:
            try:
                return self._series(directory, shelf, name)
            except OSError as error:
                self._warn(error)
                shelf.book, shelf.seen = None, ()
                return _straight(directory, name)

    def refresh(self, directory: RunDirectory) -> None:
        """Bring it up to date, so that the next who asks need not wait."""
        shelf = self._shelf(directory.id)
        with shelf.lock:
            self._fresh(directory, shelf)

    def forget(self, run_id: str) -> None:
        """The run was removed."""
        with self._lock:
            self._shelves.pop(run_id, None)
        shutil.rmtree(self._root / run_id, ignore_errors=True)

    def _series(self, directory: RunDirectory, shelf: _Shelf, name: str) -> Points:
        book = self._fresh(directory, shelf)
        if name not in book.files:
            raise _unknown(name, sorted(book.files), directory)
        try:
            return self._load(directory, shelf, book, name)
        except DamagedFile as error:
            logger.info("The curves of %s are laid out anew: %s", directory.id, error.message)
            shelf.book = book = self._caught_up(directory, shelf, None)
            return self._load(directory, shelf, book, name)

    def _warn(self, error: OSError) -> None:
        if not self._is_warned:
            logger.warning("No curves can be kept in %s (%s); charts come straight from the runs.", self._root, error)
        self._is_warned = True

    def _shelf(self, run_id: str) -> _Shelf:
        with self._lock:
            return self._shelves.setdefault(run_id, _Shelf())

    def _load(self, directory: RunDirectory, shelf: _Shelf, book: SeriesBook, name: str) -> Points:
        extent = book.extents[name]
        points = load(self._root / directory.id / book.files[name], extent, check=shelf.verified.get(name) != extent)
        shelf.verified[name] = extent
        return points

    def _fresh(self, directory: RunDirectory, shelf: _Shelf) -> SeriesBook:
        if shelf.book is None:
            shelf.book = read_book(self._root / directory.id)
        state = _state_of(directory.metrics_file)
        if shelf.book is not None and shelf.seen == state:
            return shelf.book
        shelf.book = self._caught_up(directory, shelf, shelf.book)
        shelf.seen = state
        return shelf.book

    def _caught_up(self, directory: RunDirectory, shelf: _Shelf, book: SeriesBook | None) -> SeriesBook:
        identity = directory.metrics_file.stat().st_ino if directory.metrics_file.exists() else 0
        with MetricsReader(directory.metrics_file) as reader, reader.one_moment():
            if book is None or book.identity != identity or not _still_holds(reader, book.furthest):
                shelf.verified.clear()
                shutil.rmtree(self._root / directory.id, ignore_errors=True)
                book = SeriesBook(identity=identity)
            newest = reader.newest_sample()
            if newest == book.newest_sample:
                return book
            grown = self._grown(directory.id, reader, book, shelf)
        write_book(self._root / directory.id, grown)
        return grown

    def _grown(self, run_id: str, reader: MetricsReader, book: SeriesBook, shelf: _Shelf) -> SeriesBook:
        place = self._root / run_id
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        keys, rows = reader.keys(), reader.raw_points(book.newest_sample)
        writing = book.copied()
        while batch := list(itertools.islice(rows, ROWS_AT_ONCE)):
            for key, points in _by_key(np.fromiter(batch, ROW, len(batch))):
                self._put(place, writing, shelf, keys[key], points)
        furthest = reader.furthest_sample(book.newest_sample)
        if furthest is not None and (book.furthest is None or furthest.step >= book.furthest.step):
            writing.furthest = furthest
        writing.newest_sample = reader.newest_sample()
        return writing

    def _put(self, place: Path, book: SeriesBook, shelf: _Shelf, name: tuple[str, bool], points: Points) -> None:
        """A metric goes before a timing of the same name, as it does in `metrics.db`."""
        word, is_metric = name
        if not book.admits(word, is_metric):
            return
        path, extent = place / book.files[word], book.extents[word]
        if continues(book.last_step(word), points):
            book.extents[word] = append(path, extent, points)
            if shelf.verified.get(word) == extent:  # what was read back before need not be read again
                shelf.verified[word] = book.extents[word]
        else:
            points = merged(load(path, extent) if extent.count else points[:0], points)
            book.extents[word] = replace(path, points)
        book.remember(word, points[-1:])


def _by_key(rows: Points) -> Iterator[tuple[int, Points]]:
    """The points of each name, in the order in which they came."""
    rows = rows[np.argsort(rows["key"], kind="stable")]
    keys, beginnings = np.unique(rows["key"], return_index=True)
    points = np.empty(len(rows), POINT)
    for column in POINT.names or ():
        points[column] = rows[column]
    yield from zip(keys.tolist(), np.split(points, beginnings[1:]), strict=True)


def _straight(directory: RunDirectory, name: str) -> Points:
    """From the database itself, for when there is no room for a cache: right, and slow."""
    with MetricsReader(directory.metrics_file) as reader, reader.one_moment():
        keys = {key: is_metric for key, (word, is_metric) in reader.keys().items() if word == name}
        if not keys:
            raise _unknown(name, reader.names(), directory)
        wanted = max(keys, key=lambda key: keys[key])
        rows = [row[1:] for row in reader.raw_points() if row[0] == wanted]
    return np.fromiter(rows, POINT, len(rows))


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
