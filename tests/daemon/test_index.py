from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from palaestra.core.run import RunRecord, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.errors import DamagedIndex, StoreRefused
from palaestra.daemon.index import STEPS, Index, build_index, upgrade, version_of
from palaestra.daemon.run_entry import RunEntry, Submission

RECORD = RunRecord("01M7H5H1TJ9XS3KR3PDYDV077C", "n", "script", "", RunState.QUEUED, 1.0)
ENTRY = RunEntry(RECORD, Submission(3, 1, Resources()), status_stamp="1-2")


def entries(count):
    return [replace(ENTRY, record=replace(RECORD, id=f"01M7H5H1TJ9XS3KR3P{number:08d}")) for number in range(count)]


def test_entries_are_stored_across_reopening(tmp_path):
    path = tmp_path / "daemon.db"
    with closing(Index(path)) as index:
        index.put(ENTRY)
        index.set_sequence(3)
        with_more = replace(ENTRY, gpus=(1,))
        index.put(with_more)
    with closing(Index(path)) as index:
        assert (index.load(), index.sequence()) == ([with_more], 3)
        index.remove(ENTRY.id)
        assert index.load() == []


def test_the_file_is_private(tmp_path):
    with closing(Index(tmp_path / "daemon.db")):
        assert (tmp_path / "daemon.db").stat().st_mode & 0o077 == 0


@pytest.mark.fault("G12")
def test_an_empty_file_is_refused_with_a_hint_to_repair(tmp_path):
    (tmp_path / "daemon.db").write_bytes(b"")
    with pytest.raises(DamagedIndex, match="is empty.*palaestra repair"):
        Index(tmp_path / "daemon.db")


@pytest.mark.fault("G12")
def test_a_damaged_or_truncated_file_is_refused_or_read_completely(tmp_path):
    path = tmp_path / "daemon.db"
    whole = entries(300)
    build_index(path, whole, 300)
    good = path.read_bytes()
    chance = random.Random(7)
    refused, hints = 0, set()
    for _ in range(60):
        location = chance.randrange(len(good))
        broken = bytearray(good[:location] if chance.random() < 0.3 else good)
        if len(broken) == len(good):
            end = min(len(good), location + chance.choice([1, 16, 4096]))
            broken[location:end] = chance.randbytes(end - location)
        path.write_bytes(broken)
        try:
            with closing(Index(path)) as index:
                found = index.load()
                assert len(found) == len(whole)
        except DamagedIndex as error:
            hints.add(error.hint)
            refused += 1
        for beside in tmp_path.glob("daemon.db-*"):
            beside.unlink()
    assert refused > 20
    assert [hint for hint in hints if "palaestra repair" not in hint and "newer Palaestra" not in hint] == []


@pytest.mark.fault("G12")
def test_a_lost_write_ahead_log_loses_only_the_last_rows(tmp_path):
    path = tmp_path / "daemon.db"
    build_index(path, entries(5), 5)
    before = path.read_bytes()
    with closing(Index(path)) as index:
        index.put(ENTRY)
    path.write_bytes(before)
    for beside in tmp_path.glob("daemon.db-*"):
        beside.unlink()
    with closing(Index(path)) as index:
        assert len(index.load()) == 5


def test_a_row_under_another_id_is_refused(tmp_path):
    path = tmp_path / "daemon.db"
    build_index(path, [ENTRY], 3)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET id = 'other'")
    with closing(Index(path)) as index, pytest.raises(DamagedIndex, match="wrong run"):
        index.load()


@pytest.mark.fault("G11")
def test_a_full_disk_raises_an_error_and_keeps_the_stored_entries(tmp_path):
    with closing(Index(tmp_path / "daemon.db")) as index:
        index.limit_pages(1)
        with pytest.raises(StoreRefused, match="Cannot write.*full.*Free disk space"):
            for entry in entries(500):
                index.put(entry)
        index.try_put(ENTRY)  # logged, not raised
        monitored_run = len(index.load())
        index.limit_pages(10_000)
        index.put(ENTRY)
        assert len(index.load()) == monitored_run + 1


def test_changes_are_one_transaction_and_a_full_disk_rolls_it_back(tmp_path):
    path = tmp_path / "daemon.db"
    with closing(Index(path)) as index:
        with index.transaction():
            for entry in entries(50):
                index.put(entry)
        index.limit_pages(1)
        with index.transaction():
            for entry in entries(500):
                index.try_put(entry)
    with closing(Index(path)) as index:
        assert len(index.load()) >= 50


def test_building_replaces_the_old_index_completely(tmp_path):
    path = tmp_path / "daemon.db"
    build_index(path, entries(3), 3)
    build_index(path, entries(1), 9)
    with closing(Index(path)) as index:
        assert (len(index.load()), index.sequence()) == (1, 9)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".tmp")] == []


MORE_STEPS = (
    *STEPS,
    (
        "ALTER TABLE runs ADD COLUMN colour TEXT",
        "UPDATE runs SET colour = 'red'",
        "CREATE TABLE notes (text TEXT)",
        "INSERT INTO notes VALUES ('made')",
    ),
)

UPGRADE_AND_DIE = """
import os, signal, sqlite3, sys
from pathlib import Path
from palaestra.daemon.index import upgrade
from test_migrations import MORE_STEPS
left = int(sys.argv[2])
class Connection(sqlite3.Connection):
    def execute(self, *arguments):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(*arguments)
upgrade(sqlite3.connect(sys.argv[1], isolation_level=None, factory=Connection), Path(sys.argv[1]), MORE_STEPS)
"""


def make_first(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        upgrade(connection, path)
        connection.execute("INSERT INTO runs VALUES ('a', 1, 'queued', '{}')")


def columns(path):
    with closing(sqlite3.connect(path)) as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        colours = [row[0] for row in connection.execute("SELECT colour FROM runs")] if "colour" in names else []
        return version_of(connection), names, "notes" in tables, colours


OLD = (1, ["id", "sequence", "state", "entry"], False, [])
NEW = (2, ["id", "sequence", "state", "entry", "colour"], True, ["red"])


def test_an_upgrade_keeps_the_rows_and_a_copy_of_the_old_file(tmp_path):
    path = tmp_path / "daemon.db"
    make_first(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        upgrade(connection, path, MORE_STEPS)
    assert columns(path) == NEW
    assert columns(tmp_path / "daemon.db.v1") == OLD


def test_an_up_to_date_file_is_left_alone(tmp_path):
    path = tmp_path / "daemon.db"
    make_first(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        upgrade(connection, path)
    assert [one.name for one in tmp_path.iterdir()] == ["daemon.db"]


@pytest.mark.fault("G13")
def test_a_newer_version_is_refused_with_both_numbers(tmp_path):
    path = tmp_path / "daemon.db"
    make_first(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
        with pytest.raises(DamagedIndex, match=rf"version {len(STEPS) + 1}; this Palaestra reads 0 to {len(STEPS)}"):
            upgrade(connection, path)


@pytest.mark.fault("G13")
def test_an_upgrade_killed_at_any_statement_leaves_the_old_or_the_new_version(tmp_path):
    for statement in range(1, 50):
        path = tmp_path / f"{statement}.db"
        make_first(path)
        code = subprocess.run(
            [sys.executable, "-c", UPGRADE_AND_DIE, str(path), str(statement)],
            env={"PYTHONPATH": str(Path(__file__).parent)},
            timeout=60,
        ).returncode
        found = columns(path)
        assert found in (OLD, NEW), statement
        if code == 0:
            assert found == NEW
            break
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            upgrade(connection, path, MORE_STEPS)  # and the next start completes it
        assert columns(path) == NEW
    assert statement > 5
