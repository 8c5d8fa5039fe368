"""Reads `metrics.db`, any number of processes at any time, without blocking the writer."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import DamagedFile, NotFound, did_you_mean
from palaestra.core.metrics_logger import EpisodeSummary
from palaestra.runs.metrics.schema import INTERVALS_SINCE, check, create_temporary_interval_tables, is_empty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, LAST = -(1 << 62), 1 << 62
# Where a point stands for an interval, by its range; a value that is NULL is NaN.
BUCKETS = """
SELECT min(step), max(step), min(low), max(high), sum(value * weight) / sum(weight), sum(weight), sum(others)
FROM (
    SELECT points.step AS step, value, ifnull(ranges.min, value) AS low, ifnull(ranges.max, value) AS high,
        ifnull(count, value IS NOT NULL) AS weight, ifnull(nonfinite, value IS NULL) AS others
    FROM points LEFT JOIN ranges ON ranges.step = points.step AND ranges.name = points.name
    WHERE points.name = ? AND points.step BETWEEN ? AND ?
)
GROUP BY (step - ?) * ? / ? ORDER BY 1
"""
NO_LOCK_ERRORS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}


class Point(NamedTuple):
    step: int
    value: float


class Bucket(NamedTuple):
    """All points between two steps; NaN is counted apart, so that one bad point hides nothing."""

    step_first: int
    step_last: int
    min: float
    max: float
    mean: float
    point_count: int  # without NaN
    nan_count: int = 0


class TailPoint(NamedTuple):
    sample: int  # hand the last one back to `tail` to go on from there
    step: int
    name: str
    value: float


class WrittenSample(NamedTuple):
    """Ids count on, but one that a rewind took away may be given again; with its time it names one sample, ever."""

    sample: int
    step: int
    at: float  # seconds since 1970


class MetricsReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = _connect(path)

    def names(self, *, timings: bool = True) -> list[str]:
        """All names ever written, sorted; without timings on request."""
        rows = self._rows("SELECT DISTINCT name FROM names WHERE reproducible >= ? ORDER BY name", (not timings,))
        return [name for (name,) in rows]

    def series(self, name: str, start: int | None = None, end: int | None = None) -> list[Point]:
        """Every point with start <= step <= end; of a long run, the mean of an interval at its last step."""
        rows = self._rows(
            "SELECT step, value FROM points WHERE name = ? AND step BETWEEN ? AND ? ORDER BY step",
            (self._key(name), *_range(start, end)),
        )
        return [Point(step, _number(value)) for step, value in rows]

    def buckets(self, name: str, count: int, start: int | None = None, end: int | None = None) -> list[Bucket]:
        """At most `count` stretches of equal width that hold points; no minimum or maximum is ever lost."""
        key, (first, last) = self._key(name), _range(start, end)
        found = self._rows(
            "SELECT min(step), max(step) FROM points WHERE name = ? AND step BETWEEN ? AND ?", (key, first, last)
        )[0]
        if found[0] is None:
            return []
        first, width = found[0], found[1] - found[0] + 1
        rows = self._rows(BUCKETS, (key, *found, first, max(1, count), width))
        return [
            Bucket(low, high, _number(least), _number(most), _number(mean), number, nans)
            for low, high, least, most, mean, number, nans in rows
        ]

    def last(self, name: str) -> Point | None:
        """The newest point; None when all of them were rewound."""
        rows = self._rows(
            "SELECT step, value FROM points WHERE name = ? ORDER BY step DESC LIMIT 1", (self._key(name),)
        )
        return Point(rows[0][0], _number(rows[0][1])) if rows else None

    def tail(self, after: int = 0, limit: int | None = None) -> list[TailPoint]:
        """Points of the (first `limit`) samples after that one, in the order in which they were written."""
        until = LAST if limit is None else self.nth_sample(after, limit)
        rows = self._rows(
            "SELECT points.sample, points.step, names.name, points.value "
            "FROM points JOIN names ON names.id = points.name "
            "WHERE points.step >= (SELECT min(step) FROM samples WHERE id > ?1 AND id <= ?2) "
            "AND points.step <= (SELECT max(step) FROM samples WHERE id > ?1 AND id <= ?2) "
            "AND sample > ?1 AND sample <= ?2 ORDER BY 1, 3",
            (after, until),
        )
        return [TailPoint(sample, step, name, _number(value)) for sample, step, name, value in rows]

    def newest_sample(self) -> int:
        """0 when there is none"""
        return int(self._rows("SELECT ifnull(max(id), 0) FROM samples", ())[0][0])

    def sample(self, number: int) -> WrittenSample | None:
        rows = self._rows("SELECT id, step, at FROM samples WHERE id = ?", (number,))
        return WrittenSample(*rows[0]) if rows else None

    def nth_sample(self, after: int, number: int) -> int:
        """The `number`-th sample after that one, or the newest; `after` itself when there is none."""
        rows = self._rows(
            "SELECT max(id) FROM (SELECT id FROM samples WHERE id > ? ORDER BY id LIMIT ?)", (after, number)
        )
        return after if rows[0][0] is None else int(rows[0][0])

    def furthest_sample(self, after: int = 0, until: int = LAST) -> WrittenSample | None:
        """Among those behind `after`, the one of the highest step: a rewind that takes any of them takes this one."""
        rows = self._rows(
            "SELECT id, step, at FROM samples WHERE id > ? AND id <= ? ORDER BY step DESC, id DESC LIMIT 1",
            (after, until),
        )
        return WrittenSample(*rows[0]) if rows else None

    def keys(self) -> dict[int, tuple[str, bool]]:
        """(name, whether it is reproducible) by the key that stands in the points."""
        rows = self._rows("SELECT id, name, reproducible FROM names", ())
        return {key: (name, bool(reproducible)) for key, name, reproducible in rows}

    def raw_points(self, after: int = 0, until: int = LAST) -> Iterator[tuple[Any, ...]]:
        """(key of the name, step, seconds since 1970, value, min, max, count of finite values, of others), by steps.

        Of the samples behind `after`.
        """
        query = (
            "SELECT points.name, points.step, samples.at, points.value, "
            "ifnull(ranges.min, points.value), ifnull(ranges.max, points.value), "
            "ifnull(ranges.count, ifnull(abs(value) < 9e999, 0)), "
            "ifnull(ranges.nonfinite, ifnull(abs(value) = 9e999, 1)) "
            "FROM points CROSS JOIN samples ON samples.id = points.sample "
            "LEFT JOIN ranges ON ranges.step = points.step AND ranges.name = points.name "
            "WHERE points.step >= (SELECT min(step) FROM samples WHERE id > ?1 AND id <= ?2) "
            "AND points.step <= (SELECT max(step) FROM samples WHERE id > ?1 AND id <= ?2) "
            "AND points.sample > ?1 AND points.sample <= ?2 ORDER BY 2, 1"
        )
        try:
            with contextlib.closing(self._connection.execute(query, (after, until))) as cursor:
                yield from cursor
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    @contextlib.contextmanager
    def consistent_snapshot(self) -> Iterator[None]:
        """All that is read inside is of one instant, whatever is written meanwhile."""
        self._rows("BEGIN", ())
        try:
            self._rows("SELECT count(*) FROM names", ())  # a deferred transaction begins with its first read
            yield
        finally:
            self._connection.rollback()

    def steps(self) -> list[Point]:
        """(step, seconds since 1970) of every sample, to draw a curve over wall time."""
        return [Point(step, at) for step, at in self._rows("SELECT step, at FROM samples ORDER BY id", ())]

    def episodes(
        self, start: int | None = None, end: int | None = None, limit: int | None = None
    ) -> list[EpisodeResult]:
        """Episodes brought by samples with start <= step <= end, in order; with `limit` only the newest."""
        rows = self._rows(
            "SELECT seed, total_reward, length, terminated, env_index, env_step, extras FROM episodes "
            "WHERE step BETWEEN ? AND ? ORDER BY id DESC LIMIT ?",
            (*_range(start, end), -1 if limit is None else limit),
        )
        return [_episode(row) for row in reversed(rows)]

    def episode_summaries(self, start: int | None = None, end: int | None = None) -> list[tuple[int, EpisodeSummary]]:
        """(step, the episodes that were written down together at it), in order."""
        rows = self._rows(
            "SELECT * FROM episode_summaries WHERE step BETWEEN ? AND ? ORDER BY step", _range(start, end)
        )
        return [
            (step, EpisodeSummary(count, ended, _number(mean), _number(low), _number(high), *lengths))
            for step, count, ended, mean, low, high, *lengths in rows
        ]

    def rows(self) -> list[tuple[Any, ...]]:
        """Everything the seed decides, in one canonical order: two runs did the same when these are equal.

        NaN is spelled "NaN" here, because two NaN are never equal.
        """
        points = self._rows(
            "SELECT 'metric', step, names.name, value FROM points JOIN names ON names.id = points.name "
            "WHERE reproducible ORDER BY step, names.name",
            (),
        )
        episodes = self._rows(
            "SELECT 'episode', step, env_step, env_index, seed, total_reward, length, terminated, extras "
            "FROM episodes ORDER BY id",
            (),
        )
        ranges = self._rows(
            "SELECT 'range', step, names.name, min, max, count, nonfinite FROM ranges "
            "JOIN names ON names.id = ranges.name WHERE reproducible ORDER BY step, names.name",
            (),
        )
        summaries = self._rows("SELECT 'episodes', * FROM episode_summaries ORDER BY step", ())
        metrics = [(*row[:3], "NaN" if row[3] is None else row[3]) for row in points]
        single_blocks = [(*row[:5], "NaN" if row[5] is None else row[5], *row[6:]) for row in episodes]
        return metrics + ranges + single_blocks + summaries

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> MetricsReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _key(self, name: str) -> int:
        """A metric goes before a timing of the same name."""
        rows = self._rows("SELECT id FROM names WHERE name = ? ORDER BY reproducible DESC LIMIT 1", (name,))
        if not rows:
            known = self.names()
            hint = did_you_mean(name, known) or f"Known: {', '.join(known) or 'none yet'}."
            raise NotFound(f"No metric named '{name}' in {self._path}.", hint)
        return int(rows[0][0])

    def _rows(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: sqlite3.DatabaseError) -> DamagedFile:
        return DamagedFile(f"{self._path} cannot be read: {error}.")


def _connect(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise NotFound(f"The metrics file does not exist: {path}.")
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        return _open(address, path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in NO_LOCK_ERRORS:
            raise DamagedFile(f"{path} cannot be opened as a database: {error}.") from error
        return _open_immutable(f"{address}&immutable=1", path)


def _open_immutable(address: str, path: Path) -> sqlite3.Connection:
    """In a directory that cannot be written SQLite has no place for its locks; a finished file needs none."""
    try:
        if path.with_name(f"{path.name}-wal").exists():
            raise DamagedFile(f"{path} has a log beside it that cannot be read from a read-only directory.")
        return _open(address, path)
    except sqlite3.DatabaseError as error:
        raise DamagedFile(f"{path} cannot be opened as a database: {error}.") from error


def _open(address: str, path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    try:
        if is_empty(connection):
            raise NotFound(f"No metrics in {path} yet.")
        if check(connection, path) < INTERVALS_SINCE:
            create_temporary_interval_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _range(start: int | None, end: int | None) -> tuple[int, int]:
    return (FIRST if start is None else start, LAST if end is None else end)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _episode(row: tuple[Any, ...]) -> EpisodeResult:
    seed, total_reward, length, terminated, env_index, env_step, extras = row
    return EpisodeResult(
        seed=seed,
        total_reward=_number(total_reward),
        length=length,
        terminated=bool(terminated),
        env_index=env_index,
        env_step=env_step,
        extras={key: float(value) for key, value in json.loads(extras).items()} if extras else {},
    )
