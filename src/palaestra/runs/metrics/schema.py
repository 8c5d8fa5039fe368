"""The tables of `metrics.db`; docs/metrics.md explains them to other tools."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

SCHEMA_VERSION = 2
INTERVALS_SINCE = 2
APPLICATION_ID = 0x50414C41  # "PALA": identifies the database

# Every page that a sample touches costs it ten microseconds. So points are clustered by step (one page, not one for
# each name), and there are no further indices: what a reader wants is found by step or is read in full anyway.
TABLES = """
CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    reproducible INTEGER NOT NULL,  -- 0: a timing, which differs from run to run
    UNIQUE (name, reproducible)
);
CREATE TABLE samples (
    id INTEGER PRIMARY KEY,  -- counts on after a rewind, so that a live reader misses nothing
    step INTEGER NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE points (
    step INTEGER NOT NULL,
    name INTEGER NOT NULL REFERENCES names (id),
    value REAL,  -- NULL: NaN was written; no row: nothing was
    sample INTEGER NOT NULL REFERENCES samples (id),
    PRIMARY KEY (step, name)
) WITHOUT ROWID;
CREATE TABLE episodes (
    id INTEGER PRIMARY KEY,
    step INTEGER NOT NULL,  -- of the sample that brought it
    env_step INTEGER NOT NULL,  -- of the whole run when the episode ended
    env_index INTEGER NOT NULL,
    seed INTEGER,
    total_reward REAL,  -- NULL: NaN
    length INTEGER NOT NULL,
    terminated INTEGER NOT NULL,
    extras TEXT  -- JSON object, NULL when empty
);
"""

# Since version 2. A sample of many iterations has its means among the points: a reader of version 1 still reads
# every curve.
INTERVAL_TABLES = """
CREATE TABLE intervals (
    sample INTEGER PRIMARY KEY REFERENCES samples (id),  -- whose step is that of the last iteration
    first_step INTEGER NOT NULL,
    iterations INTEGER NOT NULL
);
CREATE TABLE ranges (
    step INTEGER NOT NULL,
    name INTEGER NOT NULL REFERENCES names (id),
    min REAL,  -- of the finite values; NULL: there is none
    max REAL,
    count INTEGER NOT NULL,  -- of finite values
    nonfinite INTEGER NOT NULL,  -- NaN and infinities
    PRIMARY KEY (step, name)
) WITHOUT ROWID;
CREATE TABLE episode_summaries (
    step INTEGER PRIMARY KEY,  -- of the sample that brought it
    count INTEGER NOT NULL,
    terminated INTEGER NOT NULL,  -- the others were cut by a time limit
    return_mean REAL,
    return_min REAL,
    return_max REAL,
    length_mean REAL NOT NULL,
    length_min INTEGER NOT NULL,
    length_max INTEGER NOT NULL
);
"""


def create_or_check(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables in an empty file, in one transaction; in any other, demand that they are ours, and add what an
    older version lacks."""
    missing = f"{TABLES} PRAGMA application_id = {APPLICATION_ID}; {INTERVAL_TABLES}"
    if not is_empty(connection):
        if check(connection, path) == SCHEMA_VERSION:
            return
        missing = INTERVAL_TABLES
    connection.executescript(f"BEGIN IMMEDIATE; {missing} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")


def is_empty(connection: sqlite3.Connection) -> bool:
    """The file is still empty: its writer has just started."""
    with closing(connection.execute("SELECT count(*) FROM sqlite_master")) as rows:
        return bool(rows.fetchone()[0] == 0)


def create_temporary_interval_tables(connection: sqlite3.Connection) -> None:
    """For a reader of an older version: empty tables of its own in place of those that the file lacks."""
    connection.executescript(INTERVAL_TABLES.replace("CREATE TABLE", "CREATE TEMP TABLE"))


def check(connection: sqlite3.Connection, path: Path) -> int:
    """The file's schema version."""
    with closing(connection.execute("PRAGMA application_id")) as rows:
        application_id = rows.fetchone()[0]
    with closing(connection.execute("PRAGMA user_version")) as rows:
        found = rows.fetchone()[0]
    if application_id != APPLICATION_ID:
        raise DamagedFile(f"{path} is a database, but not one of Palaestra's metrics.")
    if not 1 <= found <= SCHEMA_VERSION:
        raise DamagedFile(
            f"{path} has schema version {found}; this Palaestra reads 1 to {SCHEMA_VERSION}.",
            "It was written by a newer Palaestra.",
        )
    return int(found)
