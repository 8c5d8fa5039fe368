from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from itertools import product

import pytest

from palaestra.core.errors import DamagedFile, NotFound, UsageError
from palaestra.core.run import MOVES, RunRecord, RunState
from palaestra.runs.directory import RunDirectory
from palaestra.runs.processes import process_started_at
from palaestra.runs.status import read_record, read_written_record, with_state, write_record

RECORD = RunRecord(
    id="01J8Z3K4M5N6P7Q8R9S0T1V2W3",
    name="a",
    kind="native",
    recipe="cartpole",
    state=RunState.RUNNING,
    created_at=1.5,
    updated_at=9.0,
    epoch=3,
    agent_step=512,
    total_steps=1000,
    summary={"charts/episodic_return": 20.5},
)


@pytest.fixture
def place(tmp_path) -> RunDirectory:
    return RunDirectory(tmp_path)


def of_this_process(record: RunRecord) -> RunRecord:
    return replace(record, pid=os.getpid(), pid_started_at=process_started_at(os.getpid()))


def test_a_record_goes_out_and_comes_back(place):
    record = of_this_process(RECORD)
    write_record(place, record)
    assert read_record(place) == record
    assert json.loads(place.status_file.read_text())["schema_version"] == 1


def test_only_what_is_reported_to_be_durable_waits_for_the_disk(place, monkeypatch):
    waited, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (waited.append(descriptor), sync(descriptor)))
    write_record(place, RECORD)
    assert waited == []
    write_record(place, RECORD, durable=True)
    assert waited != []


def test_a_summary_may_hold_nan_and_the_file_stays_strict_json(place):
    write_record(place, replace(RECORD, state=RunState.FINISHED, summary={"loss": math.nan, "score": math.inf}))
    json.loads(place.status_file.read_text(), parse_constant=pytest.fail)
    summary = read_record(place).summary
    assert math.isnan(summary["loss"])
    assert summary["score"] == math.inf


def test_a_running_run_whose_process_was_killed_is_lost(place, start_python):
    child = start_python("print('ready', flush=True); input()")
    record = replace(RECORD, pid=child.pid, pid_started_at=process_started_at(child.pid))
    write_record(place, record)
    assert read_record(place).state is RunState.RUNNING
    child.kill()
    child.wait()
    observed = read_record(place)
    assert observed.state is RunState.LOST
    assert str(child.pid) in observed.failure
    assert observed.ended_at == record.updated_at
    assert read_written_record(place) == record


@pytest.mark.fault("G4")
def test_a_third_party_with_the_same_pid_does_not_keep_a_run_alive(place):
    record = of_this_process(replace(RECORD, state=RunState.STOPPING))
    write_record(place, replace(record, pid_started_at=record.pid_started_at - 1))
    assert read_record(place).state is RunState.LOST


@pytest.mark.parametrize("state", [state for state in RunState if state not in {RunState.RUNNING, RunState.STOPPING}])
def test_a_run_that_is_not_at_work_needs_no_process(place, state):
    write_record(place, replace(RECORD, state=state))
    assert read_record(place).state is state


@pytest.mark.parametrize(("old", "new"), list(product(RunState, RunState)))
def test_only_the_moves_in_the_table_can_be_made(old, new):
    record = replace(RECORD, state=old)
    if new in MOVES[old]:
        assert with_state(record, new, exit_code=7) == replace(record, state=new, exit_code=7)
    else:
        with pytest.raises(UsageError, match=f"'a' is {old} and cannot become {new}"):
            with_state(record, new)


@pytest.mark.parametrize(
    "damage",
    [
        {"state": "dreaming"},
        {"epoch": "3"},
        {"pid": "12"},
        {"pid": True},
        {"name": None},
        {"created_at": None},
        {"summary": {"x": "high"}},
        {"summary": [1]},
        *({key: 5} for key in ("id", "name", "kind", "recipe")),
        *({key: "5"} for key in ("agent_step", "total_steps", "exit_code")),
        *({key: "now"} for key in ("created_at", "started_at", "ended_at", "updated_at", "pid_started_at")),
        {"summary": {"x": 10**400}},
    ],
)
def test_a_record_with_a_wrong_value_is_damaged(place, damage):
    write_record(place, RECORD)
    data = json.loads(place.status_file.read_text())
    place.status_file.write_text(json.dumps(data | damage))
    with pytest.raises(DamagedFile, match=r"status\.json"):
        read_record(place)


def test_a_field_of_a_later_version_is_passed_over_and_a_missing_one_is_not(place):
    write_record(place, of_this_process(RECORD))
    data = json.loads(place.status_file.read_text())
    place.status_file.write_text(json.dumps(data | {"mood": "fine"}))
    assert read_record(place).name == "a"
    del data["id"]
    place.status_file.write_text(json.dumps(data))
    with pytest.raises(DamagedFile, match="id"):
        read_record(place)


def test_a_status_of_a_newer_schema_is_refused_with_both_numbers(place):
    place.status_file.write_text('{"schema_version": 2}')
    with pytest.raises(DamagedFile, match=r"schema_version 2; this Palaestra reads 1 to 1"):
        read_record(place)


def test_a_missing_status_is_not_found(place):
    with pytest.raises(NotFound):
        read_record(place)
