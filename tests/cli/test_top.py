import json

import pytest

from palaestra.cli import top
from palaestra.cli.top import Board, cells, draw

SYSTEM = {
    "running": 1,
    "queued": 1,
    "slots": {"cpus": 2, "gpus": 0, "used": {"cpus": 1, "gpus": 0}},
    "memory": {"total": 8 << 30, "available": 4 << 30},
}


def run_data(name, state="finished", **changes):
    data = {
        "id": f"01{name}",
        "name": name,
        "state": state,
        "recipe": "cartpole",
        "agent_step": 12_345,
        "progress": 0.5,
        "summary": {"steps_per_second": 1500.0, "episodic_return": 42.25},
        "queue_position": None,
        "created_at": 0.0,
        "started_at": None,
        "ended_at": None,
    }
    return data | changes


LISTING = {
    "runs": [run_data("c"), run_data("b", "queued", queue_position=1), run_data("a", "running")],
    "sequence": 5,
    "boot": "x",
}


@pytest.fixture
def daemon(monkeypatch):
    class Daemon:
        connection = None

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def listing(self, **_):
            return LISTING

        def system(self):
            return SYSTEM

    monkeypatch.setattr(top, "connect", Daemon)


def test_those_at_work_stand_first_then_those_that_wait():
    assert [row["name"] for row in Board(LISTING, SYSTEM, 10).rows()] == ["a", "b", "c"]
    assert len(Board(LISTING, SYSTEM, 2).rows()) == 2


def test_messages_change_the_board():
    board = Board(LISTING, SYSTEM, 10)
    board.take({"type": "run", "run": run_data("d", "running")})
    board.take({"type": "removed", "run": {"id": "01a"}})
    board.take({"type": "system", "running": 7})
    board.take({"type": "hello"})
    assert [row["name"] for row in board.rows()] == ["d", "b", "c"]
    assert board.headline().startswith("7 running, 1 queued")


def test_a_row_reports_steps_rate_and_return():
    assert cells(run_data("a", "running"))[:7] == ("a", "running", "cartpole", "12,345", "50 %", "1,500", "42.2")
    assert cells(run_data("a", "queued", queue_position=3, progress=None, summary={}))[1:7] == (
        "queued 3",
        "cartpole",
        "12,345",
        "",
        "",
        "",
    )


def test_once_is_a_plain_table(call, daemon):
    code, out, err = call("top", "--once")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["name", "a", "b", "c"]
    assert "1 running, 1 queued" in err


def test_as_json_it_is_runs_and_machine(call, daemon):
    found = json.loads(call("top", "--json")[1])
    assert found["system"] == SYSTEM
    assert [run["name"] for run in found["runs"]] == ["a", "b", "c"]


@pytest.mark.fault("W10", "W11")
def test_a_name_is_never_read_as_markup_nor_sent_to_the_terminal(daemon, capsys):
    board = Board({"runs": [run_data("[red]x\x1b[31m")]}, SYSTEM, 10)
    top.Console(no_color=True).print(draw(board))
    reported = capsys.readouterr().out
    assert "[red]x" in reported
    assert "\x1b" not in reported


def test_live_it_is_drawn_anew_with_every_message_until_the_daemon_leaves(call, daemon, monkeypatch):
    reports = [{"type": "hello"}, {"type": "run", "run": run_data("new", "running")}]
    requested = []

    def follow(connection, after, boot):
        requested.append((after, boot))
        yield from reports

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(top, "is_fancy", lambda: True)
    monkeypatch.setattr(top, "follow_events", follow)
    code, out, err = call("top")
    assert (code, requested) == (0, [(5, "x")])
    assert "new" in out
    assert "The daemon has stopped." in err
