"""How the mode, the project and the key are chosen; what is logged is seen in test_wandb.py, through the process."""

from __future__ import annotations

import os
from contextlib import closing
from types import SimpleNamespace

import pytest

from palaestra.loggers.wandb import session as wandb_session
from palaestra.loggers.wandb.session import CumulativeTable, Marks, MarksFile, choose_mode, choose_project, has_key


def test_a_new_file_has_sent_nothing(tmp_path):
    file = MarksFile(tmp_path / "marks")
    assert file.read() == Marks() == Marks(-1, -1, -1, -1, 0, -1)
    file.close()


def test_the_last_marks_are_found_by_the_next_session(tmp_path):
    file = MarksFile(tmp_path / "marks")
    for step in (5, 10**12, 7):
        file.write(Marks(step, step + 1, step + 2, -1, step + 3, step + 4))
    file.close()
    again = MarksFile(tmp_path / "marks")
    assert again.read() == Marks(7, 8, 9, -1, 10, 11)
    again.close()


@pytest.mark.parametrize("damage", [b"", b"\x00\xff", b"1 2 3", b"1 2 x 4 5", b"9" * 5000])
def test_a_damaged_file_counts_as_new(tmp_path, damage):
    (tmp_path / "marks").write_bytes(damage)
    file = MarksFile(tmp_path / "marks")
    assert file.read() == Marks()
    file.close()


def test_marks_from_before_there_were_evaluations_still_hold(tmp_path):
    (tmp_path / "marks").write_text("7 8 9 -1 10\n")
    file = MarksFile(tmp_path / "marks")
    assert file.read() == Marks(7, 8, 9, -1, 10, evaluation_step=-1)
    file.close()


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


def test_wandb_is_requested_to_send_only_what_is_new(table):
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


def test_the_first_rows_are_observed_within_half_a_minute(table, clock):
    assert not table.is_due
    clock.seconds += 30.0
    assert table.is_due


def test_rows_beyond_what_wandb_reads_are_not_stored(table, run, monkeypatch):
    monkeypatch.setattr(wandb_session, "MAX_ROWS", 10)
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


@pytest.fixture(autouse=True)
def _no_key_of_whoever_runs_the_tests(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("WANDB_")] + ["NETRC"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_without_a_key_auto_is_offline():
    assert choose_mode("auto") == "offline"


def test_with_a_key_in_the_environment_auto_is_online(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "not-a-real-key")
    assert choose_mode("auto") == "online"


@pytest.mark.parametrize(("machine", "mode"), [("api.wandb.ai", "online"), ("example.org", "offline")])
def test_a_netrc_counts_only_for_its_own_host(tmp_path, machine, mode):
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine {machine}\n  login user\n  password not-a-real-key\n")
    netrc.chmod(0o600)
    assert choose_mode("auto") == mode


def test_a_netrc_for_an_own_server_is_found(tmp_path, monkeypatch):
    netrc = tmp_path / "elsewhere"
    netrc.write_text("machine wandb.example.org login user password not-a-real-key\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert not has_key()
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert has_key()


def test_a_broken_netrc_is_no_key(tmp_path):
    (tmp_path / ".netrc").write_text("machine\nmachine machine password")
    assert not has_key()


def test_wandb_mode_of_the_environment_decides_for_auto_only(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert choose_mode("auto") == "disabled"
    assert choose_mode("online") == "online"
    assert choose_mode("offline") == "offline"


def test_the_project_of_the_environment_stands_in_for_one_that_nobody_set(monkeypatch):
    assert choose_project("palaestra") == "palaestra"
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    assert choose_project("palaestra") == "mine"
    assert choose_project("given") == "given"
