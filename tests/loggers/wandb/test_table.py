from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace

import pytest

from palaestra.loggers.wandb import table as wandb_table
from palaestra.loggers.wandb.table import CumulativeTable


class FakeTable:
    def __init__(self, columns, log_mode, allow_mixed_types):
        self.columns, self.log_mode, self.rows = columns, log_mode, []

    def add_data(self, *row):
        self.rows.append(row)


class FakeRun:
    def __init__(self):
        self.logged: list[int] = []  # rows at each time

    def log(self, values):
        (table,) = values.values()
        self.logged.append(len(table.rows))


@pytest.fixture
def run() -> FakeRun:
    return FakeRun()


def open_table(run, clock, directory) -> CumulativeTable:
    wandb = SimpleNamespace(Table=FakeTable)
    return CumulativeTable(wandb, run, "tables/x", ("Episode", "Reward"), directory / "rows.jsonl", clock)


@pytest.fixture
def table(run, clock, tmp_path):
    with closing(open_table(run, clock, tmp_path)) as table:
        yield table


def test_wandb_is_asked_to_send_only_what_is_new(table):
    assert table._table.log_mode == "INCREMENTAL"
    assert table._table.columns == ["Episode", "Reward"]


def test_a_table_without_new_rows_is_not_logged(table, run):
    table.log()
    table.add([1, 2.0])
    table.log()
    table.log()
    assert run.logged == [1]


def test_a_week_of_a_busy_run_needs_fewer_than_a_hundred_increments(table, run, clock):
    for number in range(7 * 24 * 60 * 4):  # every 15 s
        clock.seconds += 15.0
        table.add([number, 0.0])
        if table.is_due:
            table.log()
    assert 20 < len(run.logged) < 100


def test_the_first_rows_are_seen_within_half_a_minute(table, clock):
    assert not table.is_due
    clock.seconds += 30.0
    assert table.is_due


def test_rows_beyond_what_wandb_reads_are_not_kept(table, run, monkeypatch):
    monkeypatch.setattr(wandb_table, "MAX_ROWS", 10)
    for number in range(20):
        table.add([number, 0.0])
    table.log()
    assert run.logged == [10]


def test_rows_that_a_killed_session_did_not_log_are_logged_by_the_next(run, clock, tmp_path):
    killed = open_table(run, clock, tmp_path)
    killed.add([1, 10.0])
    killed.log()
    killed.add([2, None])
    killed.add([3, 30.0])
    killed._waiting.write("[4, 40")  # torn
    killed.close()
    later = FakeRun()
    with closing(open_table(later, clock, tmp_path)) as table:
        assert table._table.rows == [(2, None), (3, 30.0)]
        table.add([4, 40.0])
        table.log()
    assert (run.logged, later.logged) == ([1], [3])
    with closing(open_table(later, clock, tmp_path)) as table:
        assert table._table.rows == []
