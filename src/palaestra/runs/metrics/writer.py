"""Writes a run's `metrics.db`; one process at a time."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import time
from functools import cache
from itertools import chain, groupby, repeat
from typing import TYPE_CHECKING

from palaestra.core.episodes import EpisodeColumns
from palaestra.core.errors import DamagedFile, RunFailed, UsageError
from palaestra.runs.files import finite, fsync_directory
from palaestra.runs.lock import AlreadyHeld, hold
from palaestra.runs.metrics.schema import create_or_check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.metrics_logger import Sample


POINTS_PER_STATEMENT = 200  # points of a statement; SQLite takes at least 999 numbers


def point_statements(
    samples: Iterable[tuple[int, Sample]], id_of: Callable[[str, bool], int]
) -> Iterator[tuple[str, Iterable[tuple[object, ...]]]]:
    """Statements with the rows to execute each for: all points of a sample in one, samples of the same names together.

    A statement says which names its points have, so that a row is no more than a sample's step, number and values.
    """
    ids_of = cache(lambda metrics, timings: _ids(metrics, timings, id_of))  # most samples have the same names
    for ids, alike in groupby(samples, key=lambda one: ids_of(tuple(one[1].metrics), tuple(one[1].timings))):
        rows = [_row(key, sample) for key, sample in alike]
        for first in range(0, len(ids), POINTS_PER_STATEMENT):
            some = slice(first + 2, first + 2 + POINTS_PER_STATEMENT)
            own = rows if len(ids) <= POINTS_PER_STATEMENT else [(*row[:2], *row[some]) for row in rows]
            yield _statement(ids[first : first + POINTS_PER_STATEMENT]), own


def _ids(metrics: Iterable[str], timings: Iterable[str], id_of: Callable[[str, bool], int]) -> tuple[int, ...]:
    kinds = ((metrics, True), (timings, False))
    return tuple(id_of(name, reproducible) for names, reproducible in kinds for name in names)


def _statement(ids: Iterable[int]) -> str:
    points = ", ".join(f"(?1, {int(own)}, ?{folder}, ?2)" for folder, own in enumerate(ids, start=3))
    return f"INSERT OR REPLACE INTO points VALUES {points}"  # noqa: S608  nothing but our own numbers


def _row(key: int, sample: Sample) -> tuple[object, ...]:
    return (sample.step, key, *map(float, sample.metrics.values()), *map(float, sample.timings.values()))


def interval_rows(samples: Iterable[tuple[int, Sample]]) -> Iterator[tuple[object, ...]]:
    for key, sample in samples:
        if sample.interval is not None:
            yield key, sample.interval.first_step, sample.interval.iterations


def range_rows(samples: Iterable[Sample], id_of: Callable[[str, bool], int]) -> Iterator[tuple[object, ...]]:
    for sample in samples:
        if sample.interval is not None:
            for name, found in sample.interval.ranges.items():
                yield sample.step, id_of(name, name in sample.metrics), *found


def summary_rows(samples: Iterable[Sample]) -> Iterator[tuple[object, ...]]:
    return ((sample.step, *sample.episode_summary) for sample in samples if sample.episode_summary is not None)


def episode_rows(sample: Sample) -> Iterable[tuple[object, ...]]:
    step, episodes = sample.step, sample.episodes
    if not isinstance(episodes, EpisodeColumns):
        return [_episode_row(step, episode) for episode in episodes]
    returns = map(float, episodes.total_rewards)
    own = (episodes.env_indices, repeat(None), returns, episodes.lengths, episodes.terminated)
    return zip(repeat(step), repeat(episodes.env_step), *own, repeat(None), strict=False)


def _episode_row(step: int, episode: EpisodeResult) -> tuple[object, ...]:
    return (
        step,
        episode.env_step,
        episode.env_index,
        episode.seed,
        float(episode.total_reward),
        episode.length,
        episode.terminated,
        json.dumps(finite(episode.extras), sort_keys=True) if episode.extras else None,
    )


logger = logging.getLogger(__name__)

WAL_PAGES = 4000  # 16 MB between the checkpoints that SQLite makes by itself
BUSY_SECONDS = 5.0  # that SQLite waits for a lock by itself
WAIT_LIMIT_SECONDS = 300.0  # the reader may be slow on a busy machine
WARN_AFTER_SECONDS = 2.0  # of waiting, before it is said what for
POLL_SECONDS = 0.01


class MetricsInUse(UsageError):
    """Another process writes the same file, or reads it while its journal mode must change."""


class MetricsWriter:
    """A sample is part of one transaction: after kill -9 it is there whole or not at all.

    It may move between threads, but only one may use it at a time.
    """

    def __init__(self, path: Path, *, is_secondary: bool = False) -> None:
        """A secondary writer adds samples to an existing file and leaves its journal mode unchanged: changing the mode
        has to wait until no process reads the file."""
        self._path = path
        self._is_secondary = is_secondary
        self._names: dict[tuple[str, bool], int] = {}
        with contextlib.ExitStack() as stack:
            _lock_exclusively(stack, path)
            self._connection = stack.enter_context(contextlib.closing(_connect(path, is_secondary=is_secondary)))
            rows = self._connection.execute("SELECT name, reproducible, id FROM names")
            self._names = {(name, bool(reproducible)): key for name, reproducible, key in rows}
            self._last_sample: int = self._connection.execute("SELECT ifnull(max(id), 0) FROM samples").fetchone()[0]
            self._undo = stack.pop_all()

    def write(self, *samples: Sample) -> None:
        """All of them or none."""
        if not samples:
            return
        with self._transaction(f"the metrics of step {samples[-1].step}"):
            insert = self._connection.executemany
            keyed = list(enumerate(samples, start=self._last_sample + 1))
            insert("INSERT INTO samples VALUES (?, ?, ?)", [(key, sample.step, sample.at) for key, sample in keyed])
            for statement, rows in point_statements(keyed, self._name):
                insert(statement, rows)
            episodes = chain.from_iterable(map(episode_rows, samples))
            insert("INSERT INTO episodes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", episodes)
            insert("INSERT OR REPLACE INTO episode_summaries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", summary_rows(samples))
            insert("INSERT INTO intervals VALUES (?, ?, ?)", interval_rows(keyed))
            insert("INSERT OR REPLACE INTO ranges VALUES (?, ?, ?, ?, ?, ?)", range_rows(samples, self._name))
        self._last_sample += len(samples)

    def rewind(self, step: int) -> None:
        """Removes everything after `step`; the resumed run writes it again."""
        with self._transaction(f"the return to step {step}"):
            for table in ("points", "ranges", "episodes", "episode_summaries", "samples"):
                self._connection.execute(f"DELETE FROM {table} WHERE step > ?", (step,))  # noqa: S608  our own names
            self._connection.execute("DELETE FROM intervals WHERE sample NOT IN (SELECT id FROM samples)")

    def drop_intervals(self, first_step: int) -> None:
        """Removes combined samples that reach `first_step`; the resumed run writes them again."""
        own = "(SELECT sample FROM intervals JOIN samples ON samples.id = sample WHERE step >= :first)"
        point = "(SELECT 1 FROM points WHERE points.step = ranges.step AND points.name = ranges.name)"
        values = {"first": first_step}
        with self._transaction(f"the return to step {first_step}"):
            change = self._connection.execute
            change(f"DELETE FROM points WHERE step >= :first AND sample IN {own}", values)  # noqa: S608  our own names
            change(f"DELETE FROM ranges WHERE step >= :first AND NOT EXISTS {point}", values)  # noqa: S608
            change("DELETE FROM episode_summaries WHERE step >= :first", values)
            change(f"DELETE FROM samples WHERE id IN {own}", values)  # noqa: S608
            change("DELETE FROM intervals WHERE sample NOT IN (SELECT id FROM samples)")

    def flush(self) -> None:
        """Everything written so far survives a power cut from here on, also while readers hold the log back."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            raise _failed(self._path, "what was written so far", error) from error
        self.sync_log()

    def sync_log(self) -> None:
        """The same, from whatever thread, also while another one writes: it leaves the log as long as it is.

        What SQLite has moved from the log into the file by then, it has synced itself.
        """
        try:
            log = self._path.with_name(f"{self._path.name}-wal")
            descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            fsync_directory(self._path.parent)
        except OSError as error:
            raise _failed(self._path, "what was written so far", error) from error

    def close(self) -> None:
        """Fold the log into the file, so that a finished run is one file that can be copied."""
        if not self._is_secondary:
            with contextlib.suppress(sqlite3.OperationalError):  # a reader is looking: the log stays beside the file
                self._connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        self._undo.close()

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _name(self, name: str, reproducible: bool) -> int:
        key = self._names.get((name, reproducible))
        if key is None:
            cursor = self._connection.execute(
                "INSERT INTO names (name, reproducible) VALUES (?, ?)", (name, reproducible)
            )
            key = self._names[name, reproducible] = int(cursor.lastrowid or 0)
        return key

    @contextlib.contextmanager
    def _transaction(self, what: str) -> Iterator[None]:
        names = len(self._names)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            for name in list(self._names)[names:]:
                del self._names[name]
            if isinstance(error, sqlite3.Error):
                raise _failed(self._path, what, error) from error
            raise


def wait_for_writer(path: Path) -> MetricsWriter:
    """For a run that goes on just when an evaluation adds its figures, or somebody reads all of a file that must become
    one with a log. Either takes milliseconds, or seconds where a killed training's log is folded in or the file is
    long; a run that did not wait would have no metrics."""
    began, has_warned = time.monotonic(), False
    while True:
        try:
            return MetricsWriter(path)
        except MetricsInUse as error:
            waited = time.monotonic() - began
            if waited > WAIT_LIMIT_SECONDS:
                raise
            if waited > WARN_AFTER_SECONDS and not has_warned:
                logger.warning("The run waits for its metrics: %s", error.message)
                has_warned = True
            time.sleep(POLL_SECONDS)


def _lock_exclusively(stack: contextlib.ExitStack, path: Path) -> None:
    try:
        stack.enter_context(hold(path.with_name(f".{path.name}.lock")))
    except AlreadyHeld as error:
        raise MetricsInUse(
            f"{path} is already being written by process {error.pid}.", "Only one process may write a run's metrics."
        ) from error


def _connect(path: Path, *, is_secondary: bool) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise _failed(path, "the database", error) from error
    try:
        if not is_secondary:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}").fetchall()
        create_or_check(connection, path)
    except sqlite3.DatabaseError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:  # the upper bits give the kind of SQLITE_BUSY
            raise MetricsInUse(f"{path} is in use ({error}).", "Try again later.") from error
        raise DamagedFile(f"{path} cannot be opened as a database: {error}.") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _failed(path: Path, what: str, error: Exception) -> RunFailed:
    hint = "Is the disk full?" if path.exists() else "Was the run's directory deleted or moved?"
    return RunFailed(f"{path}: {what} could not be written ({error}).", hint)
