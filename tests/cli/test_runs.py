from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from palaestra.core.run import RunState
from palaestra.runs.processes import process_started_at
from palaestra.runs.status import read_record, write_record
from palaestra.runs.store import RunStore


@pytest.fixture
def sleeper():
    """A process that stands in for a training."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    yield process
    process.kill()
    process.wait()


def pretend_running(name, pid):
    directory = RunStore().resolve(name)
    record = replace(
        read_record(directory), state=RunState.RUNNING, pid=pid, pid_started_at=process_started_at(pid), ended_at=None
    )
    write_record(directory, record)
    return directory


def test_a_run_of_a_newer_version_is_listed_as_that(call, runs):
    status = RunStore().resolve("second").status_file
    status.write_text(status.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    code, out, reported = call("runs")
    line = next(line for line in out.splitlines() if line.startswith("second"))
    assert code == 0
    assert "written by a newer version" in line
    assert "lost" not in line
    assert "schema_version 99" in reported
    assert "install that one" in reported


def test_runs_are_listed_newest_first(call, runs):
    code, out, _ = call("runs")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["name", "first", "second", "third"]
    assert [record["name"] for record in json.loads(call("runs", "--json")[1])] == ["first", "second", "third"]
    assert json.loads(call("runs", "list", "--json", "--state", "running")[1]) == []


def test_no_runs_are_no_error(call):
    code, out, err = call("runs")
    assert (code, out) == (0, "")
    assert "palaestra train" in err
    assert call("runs", "--json")[1].strip() == "[]"


def test_a_run_is_shown_by_name_by_id_and_by_the_start_of_its_id(call, runs):
    shown = json.loads(call("runs", "show", "first", "--json")[1])
    assert (shown["name"], shown["state"], shown["config"]["total_steps"]) == ("first", "finished", 512)
    assert json.loads(call("runs", "show", shown["id"], "--json")[1]) == shown
    assert json.loads(call("runs", "show", "latest", "--json")[1]) == shown
    assert "total_steps: 512" in call("runs", "show", "first")[1]


def test_an_unknown_run_is_reported_with_the_nearest(call, runs):
    code, out, err = call("runs", "show", "frist")
    assert (code, out) == (3, "")
    assert "Did you mean 'first'?" in err


def test_a_stop_reaches_the_process_of_the_run(call, runs, sleeper):
    pretend_running("first", sleeper.pid)
    code, _, err = call("runs", "stop", "first")
    assert code == 0
    assert "is stopping" in err
    assert sleeper.wait(timeout=10) == -signal.SIGTERM


def test_a_stop_that_waits_reports_when_the_run_does_not_end(call, runs):
    pretend_running("first", os.getpid())
    received = []
    before = signal.signal(signal.SIGTERM, lambda *_: received.append(1))
    try:
        code, _, err = call("runs", "stop", "first", "--wait", "0.2")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [1]
    assert code == 1
    assert "still running" in err


def test_a_stop_that_waits_ends_when_the_process_is_gone(call, runs, sleeper):
    pretend_running("first", sleeper.pid)
    assert call("runs", "stop", "first", "--wait", "10")[0] == 0


def test_stopping_a_run_that_is_over_changes_nothing(call, runs):
    code, _, err = call("runs", "stop", "first")
    assert code == 0
    assert "already finished" in err


def test_a_pid_that_belongs_to_somebody_else_by_now_gets_no_signal(call, runs, sleeper):
    directory = pretend_running("first", sleeper.pid)
    write_record(directory, replace(read_record(directory), pid_started_at=1.0))
    call("runs", "stop", "first")
    assert sleeper.poll() is None


def test_removing_several_runs_removes_all_or_none(call, runs):
    code, _, err = call("runs", "rm", "first", "nobody")
    assert code == 3
    assert "nobody" in err
    assert len(RunStore().list()) == 3
    assert call("runs", "rm", "first", "second")[0] == 0
    assert [record.name for record in RunStore().list()] == ["third"]


def test_a_running_run_is_not_removed(call, runs):
    pretend_running("first", os.getpid())
    code, _, err = call("runs", "rm", "first")
    assert code == 2
    assert "palaestra runs stop first" in err


def test_the_difference_of_two_runs_is_the_keys_that_differ(call, runs):
    found = json.loads(call("runs", "diff", "first", "second", "--json")[1])
    assert found == [{"key": "seed", "old": len("first"), "new": len("second")}]
    assert call("runs", "diff", "first", "second")[1] == "seed: 5 -> 6\n"
    assert call("runs", "diff", "first", "first")[:2] == (0, "")


def test_runs_are_listed_with_what_they_take_the_largest_first(call, make_run):
    small, large = make_run("small"), make_run("large")
    (large.videos / "film.mp4").write_bytes(bytes(3_000_000))
    code, out, _ = call("runs", "disk", "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["name"] for one in found] == ["large", "small"]
    assert [one["id"] for one in found] == [large.id, small.id]
    assert found[0]["bytes"] == sum(found[0]["parts"].values()) > 3_000_000
    _, table, _ = call("runs", "disk")
    assert "videos 3" in table
    assert "all" in table.splitlines()[-1]


def test_one_run_can_be_requested(call, make_run):
    make_run("first")
    make_run("second")
    _, out, _ = call("runs", "disk", "second", "--json")
    assert [one["name"] for one in json.loads(out)] == ["second"]


def test_without_runs_it_says_how_to_start_one(call):
    code, out, err = call("runs", "disk")
    assert code == 0
    assert "palaestra train cartpole" in out + err
