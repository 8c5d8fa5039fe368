"""The daemon's own database: what it knows of every run, so that starting and listing need not read every directory.

The directories are the truth; the index can be made anew from them at any time (`palaestra repair`). So it need not
survive a power cut to the last row, only never be half of one: one process, one connection, write-ahead log.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palaestra.core.errors import DamagedFile
from palaestra.daemon.entry import Entry, decode_entry, encode_entry
from palaestra.daemon.errors import DamagedIndex, StoreRefused
from palaestra.daemon.migrations import upgrade
from palaestra.runs.files import fsync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

REPAIR = "Make it anew from the runs themselves: palaestra repair"
COMPANIONS = ("-wal", "-shm", "-journal")


class Index:
    """Used by one thread at a time; the roster's lock sees to that."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it when there is none yet."""
        self._path = path
        if not path.exists():
            build_index(path, [], 0)
        elif path.stat().st_size == 0:
            raise DamagedIndex(f"{path} is empty.", REPAIR)
        self._connection = _open(path)

    def load(self) -> list[Entry]:
        try:
            rows = self._connection.execute("SELECT id, entry FROM runs").fetchall()
            entries = [decode_entry(json.loads(text), self._path) for _, text in rows]
        except (sqlite3.DatabaseError, KeyError, TypeError, ValueError, DamagedFile) as error:
            raise DamagedIndex(f"{self._path} cannot be read: {error}.", REPAIR) from error
        strangers = [run_id for (run_id, _), entry in zip(rows, entries, strict=True) if run_id != entry.id]
        if strangers:
            raise DamagedIndex(f"{self._path} has the wrong run under {strangers[0]}.", REPAIR)
        return entries

    def put(self, entry: Entry) -> None:
        with self._told():
            _put(self._connection, entry)

    def drop(self, run_id: str) -> None:
        with self._told():
            self._connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))

    def try_put(self, entry: Entry) -> None:
        """For what has happened anyway: an index that lags behind is set right when the daemon starts again."""
        try:
            self.put(entry)
        except StoreRefused as error:
            logger.warning("%s", error)

    def try_drop(self, run_id: str) -> None:
        try:
            self.drop(run_id)
        except StoreRefused as error:
            logger.warning("%s", error)

    def sequence(self) -> int:
        """The highest that was ever given."""
        row = self._connection.execute("SELECT value FROM counters WHERE name = 'sequence'").fetchone()
        if row is None:
            raise DamagedIndex(f"{self._path} has lost count of what was accepted.", REPAIR)
        return int(row[0])

    def count_up_to(self, sequence: int) -> None:
        with self._told():
            self._connection.execute("UPDATE counters SET value = ? WHERE name = 'sequence'", (sequence,))

    @contextmanager
    def together(self) -> Iterator[None]:
        """One transaction; a disk that has no room for it leaves the index as it was, and old."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            try:
                self._connection.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                logger.warning("The daemon's index %s cannot be written: %s.", self._path, error)
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def limit_pages(self, pages: int) -> None:
        """For tests: the file cannot grow beyond this, as on a full disk."""
        self._connection.execute(f"PRAGMA max_page_count = {int(pages)}")

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise StoreRefused(
                f"The daemon's index {self._path} cannot be written: {error}.",
                "Make room on that disk, then try again.",
            ) from error


def build_index(path: Path, entries: Iterable[Entry], sequence: int) -> None:
    """A new index under another name, then renamed: there is a whole one or none."""
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
            f"The daemon's index {path} cannot be made: {error}.", "Is there room on that disk?"
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
            raise StoreRefused(f"The daemon's index {path} cannot be written: {error}.") from error
        raise DamagedIndex(f"{path} cannot be read: {error}.", REPAIR) from error
    except sqlite3.DatabaseError as error:
        connection.close()
        raise DamagedIndex(f"{path} cannot be read: {error}.", REPAIR) from error
    except DamagedIndex:
        connection.close()
        raise
    return connection


def _put(connection: sqlite3.Connection, entry: Entry) -> None:
    sequence = entry.ticket.sequence if entry.ticket else 0
    text = json.dumps(encode_entry(entry), ensure_ascii=True)
    connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", (entry.id, sequence, str(entry.state), text))
