"""The tables of the index, and how those of an older version become those of this one.

A step runs in one transaction together with the new version number: killed at any instant, the file is of the old
version or of the new one. The old file is kept beside it as `daemon.db.v1`.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from palaestra.daemon.errors import DamagedIndex
from palaestra.runs.files import fsync_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# STEPS[n] makes version n + 1 of version n; a new file begins at version 0.
STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE runs (id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, state TEXT NOT NULL, entry TEXT NOT NULL)",
        "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
        "INSERT INTO counters VALUES ('sequence', 0)",
    ),
)


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def upgrade(connection: sqlite3.Connection, path: Path, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Bring an open index (in autocommit mode) to the newest version; one of a newer program is refused."""
    found = version_of(connection)
    if found > len(steps):
        raise DamagedIndex(
            f"{path} has version {found}; this Palaestra reads 0 to {len(steps)}.",
            "It was written by a newer Palaestra: use that one.",
        )
    if 0 < found < len(steps):
        keep_backup(connection, path, found)
    for number in range(found, len(steps)):
        connection.execute("BEGIN IMMEDIATE")
        for statement in steps[number]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")


def keep_backup(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """A whole copy, made under another name first."""
    backup = path.with_name(f"{path.name}.v{version}")
    temporary = path.with_name(f".tmp-{os.getpid()}-0-{backup.name}")
    temporary.unlink(missing_ok=True)
    with closing(sqlite3.connect(temporary)) as copy:
        connection.backup(copy)
    temporary.replace(backup)
    fsync_directory(path.parent)
    return backup
