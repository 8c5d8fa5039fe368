from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from palaestra.core.errors import DamagedFile
from palaestra.runs.metrics.schema import SCHEMA_VERSION, create_or_check

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


@pytest.fixture
def connection(tmp_path):
    with closing(sqlite3.connect(tmp_path / "metrics.db", isolation_level=None)) as connection:
        yield connection


def test_tables_are_made_once(connection, tmp_path):
    create_or_check(connection, tmp_path)
    before = connection.execute("SELECT * FROM sqlite_master").fetchall()
    create_or_check(connection, tmp_path)
    assert connection.execute("SELECT * FROM sqlite_master").fetchall() == before


def test_the_page_for_people_names_every_table_and_column(connection, tmp_path):
    create_or_check(connection, tmp_path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    made = {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in tables}
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert {name: re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", columns)) for name, columns in rows} == made


def test_a_newer_schema_is_refused_with_both_numbers(connection, tmp_path):
    create_or_check(connection, tmp_path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(DamagedFile, match=f"schema version {SCHEMA_VERSION + 1}; this Palaestra reads 1 to"):
        create_or_check(connection, tmp_path)


def test_somebody_else_s_database_is_left_alone(connection, tmp_path):
    connection.execute("CREATE TABLE recipes (cake)")
    with pytest.raises(DamagedFile, match="not one of Palaestra's"):
        create_or_check(connection, tmp_path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]
