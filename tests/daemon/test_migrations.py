import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from palaestra.daemon.errors import DamagedIndex
from palaestra.daemon.migrations import STEPS, upgrade, version_of

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
from palaestra.daemon.migrations import upgrade
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
def test_a_newer_one_is_refused_with_both_numbers(tmp_path):
    path = tmp_path / "daemon.db"
    make_first(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
        with pytest.raises(DamagedIndex, match=rf"version {len(STEPS) + 1}; this Palaestra reads 0 to {len(STEPS)}"):
            upgrade(connection, path)


@pytest.mark.fault("G13")
def test_killed_at_any_statement_it_is_old_or_new_and_never_half(tmp_path):
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
