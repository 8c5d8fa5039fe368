"""The index: the daemon's database of all runs, so that it need not read every directory to start or to list runs.

It can be rebuilt from the run directories at any time (`palaestra repair`). So a power loss may lose its last rows, but
must not damage it: one process, one connection, write-ahead log. An old version is upgraded in place, with a backup.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from palaestra.core.errors import DamagedFile
from palaestra.daemon.errors import DamagedIndex, StoreRefused
from palaestra.daemon.run_entry import RunEntry, decode_entry, encode_entry
from palaestra.runs.files import fsync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

REPAIR = "Rebuild it from the run directories: palaestra repair"
COMPANIONS = ("-wal", "-shm", "-journal")
# STEPS[n] upgrades version n to n + 1; a new file has version 0.
STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE runs (id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, state TEXT NOT NULL, entry TEXT NOT NULL)",
        "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
        "INSERT INTO counters VALUES ('sequence', 0)",
    ),
)


class Index:
    """The database connection. Not thread-safe: RunTable holds its lock."""

    def __init__(self, path: Path) -> None:
        """Opens the index, or creates it."""
        self._path = path
        if not path.exists():
            build_index(path, [], 0)
        elif path.stat().st_size == 0:
            raise DamagedIndex(f"{path} is empty.", REPAIR)
        self._connection = _open(path)

    def load(self) -> list[RunEntry]:
        try:
            rows = self._connection.execute("SELECT id, entry FROM runs").fetchall()
            entries = [decode_entry(json.loads(text), self._path) for _, text in rows]
        except (sqlite3.DatabaseError, KeyError, TypeError, ValueError, DamagedFile) as error:
            raise DamagedIndex(f"Cannot read {self._path}: {error}.", REPAIR) from error
        mismatches = [run_id for (run_id, _), entry in zip(rows, entries, strict=True) if run_id != entry.id]
        if mismatches:
            raise DamagedIndex(f"{self._path} has the wrong run under {mismatches[0]}.", REPAIR)
        return entries

    def put(self, entry: RunEntry) -> None:
        with self._store_errors():
            _put(self._connection, entry)

    def remove(self, run_id: str) -> None:
        with self._store_errors():
            self._connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))

    def try_put(self, entry: RunEntry) -> None:
        """Stores a change of a run directory. If it fails, the next start of the daemon updates the index."""
        try:
            self.put(entry)
        except StoreRefused as error:
            logger.warning("%s", error)

    def try_remove(self, run_id: str) -> None:
        try:
            self.remove(run_id)
        except StoreRefused as error:
            logger.warning("%s", error)

    def sequence(self) -> int:
        """Returns the highest sequence number ever assigned."""
        row = self._connection.execute("SELECT value FROM counters WHERE name = 'sequence'").fetchone()
        if row is None:
            raise DamagedIndex(f"{self._path} has no sequence number.", REPAIR)
        return int(row[0])

    def set_sequence(self, sequence: int) -> None:
        with self._store_errors():
            self._connection.execute("UPDATE counters SET value = ? WHERE name = 'sequence'", (sequence,))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Groups changes into one transaction; on a full disk the index stays as it was."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            try:
                self._connection.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                logger.warning("Cannot write the daemon's index %s: %s.", self._path, error)
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def limit_pages(self, pages: int) -> None:
        """Limits the size of the file, to simulate a full disk in tests."""
        self._connection.execute(f"PRAGMA max_page_count = {int(pages)}")

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise StoreRefused(
                f"Cannot write the daemon's index {self._path}: {error}.",
                "Free disk space and try again.",
            ) from error


def build_index(path: Path, entries: Iterable[RunEntry], sequence: int) -> None:
    """Creates an index atomically: it is written under another name and renamed."""
    temporary = path.with_name(f".tmp-{os.getpid()}-0-{path.name}")
    try:
        remove_index(temporary)
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            upgrade(connection, temporary)
            connection.execute("BEGIN IMMEDIATE")
            for entry in entries:
                _put(connection, entry)
            connection.execute("UPDATE counters SET value = ? WHERE name = 'sequence'", (sequence,))
            connection.execute("COMMIT")
        finally:
            connection.close()
        temporary.chmod(0o600)
        for companion in COMPANIONS:  # of the file that is replaced
            path.with_name(path.name + companion).unlink(missing_ok=True)
        temporary.replace(path)
        fsync_directory(path.parent)
    except (OSError, sqlite3.DatabaseError) as error:
        raise StoreRefused(
            f"Cannot create the daemon's index {path}: {error}.", "Free disk space and try again."
        ) from error


def remove_index(path: Path) -> None:
    for name in (path.name, *(path.name + companion for companion in COMPANIONS)):
        path.with_name(name).unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        found = connection.execute("PRAGMA quick_check").fetchall()
        if found != [("ok",)]:
            raise DamagedIndex(f"{path} is damaged: {found[0][0]}.", REPAIR)
        upgrade(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("SELECT id, sequence, state, entry FROM runs LIMIT 0")
    except sqlite3.OperationalError as error:
        connection.close()
        if "readonly" in str(error) or "unable to open" in str(error) or "full" in str(error):
            raise StoreRefused(f"Cannot write the daemon's index {path}: {error}.") from error
        raise DamagedIndex(f"Cannot read {path}: {error}.", REPAIR) from error
    except sqlite3.DatabaseError as error:
        connection.close()
        raise DamagedIndex(f"Cannot read {path}: {error}.", REPAIR) from error
    except DamagedIndex:
        connection.close()
        raise
    return connection


def _put(connection: sqlite3.Connection, entry: RunEntry) -> None:
    sequence = entry.submission.sequence if entry.submission else 0
    text = json.dumps(encode_entry(entry), ensure_ascii=True)
    connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", (entry.id, sequence, str(entry.state), text))


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def upgrade(connection: sqlite3.Connection, path: Path, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Upgrades an open index (in autocommit mode), one transaction a step. Refuses one of a newer version."""
    found = version_of(connection)
    if found > len(steps):
        raise DamagedIndex(
            f"{path} has version {found}; this Palaestra reads 0 to {len(steps)}.",
            "It was written by a newer version; install that one to use it.",
        )
    if 0 < found < len(steps):
        write_backup(connection, path, found)
    for number in range(found, len(steps)):
        connection.execute("BEGIN IMMEDIATE")
        for statement in steps[number]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")


def write_backup(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """Writes a complete copy as `daemon.db.v1`, atomically."""
    backup = path.with_name(f"{path.name}.v{version}")
    temporary = path.with_name(f".tmp-{os.getpid()}-0-{backup.name}")
    temporary.unlink(missing_ok=True)
    with closing(sqlite3.connect(temporary)) as copy:
        connection.backup(copy)
    temporary.replace(backup)
    fsync_directory(path.parent)
    return backup
