from __future__ import annotations

import pytest

from palaestra.core.clock import SystemClock
from palaestra.core.run import RunRequest, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.monitor_handle import MonitorRecord
from palaestra.daemon.process_tree import Process
from palaestra.daemon.run_entry import Submission, SubmissionOptions
from palaestra.daemon.run_outcome import (
    MAX_LINE,
    MAX_LINES,
    RunOutcome,
    determine_outcome,
    fail_run,
    finalize_run,
    read_last_bytes,
    read_output_tail,
)
from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import read_journal
from palaestra.runs.status import read_written_record, with_state, write_record
from palaestra.runs.store import RunStore

SUBMISSION = Submission(1, 1, Resources(), SubmissionOptions(memory_mb=100))
GONE = "the process is gone and its exit code is unknown (killed, or the machine stopped)"


def monitor_record(code=None, **changes):
    fields = {"attempt": 1, "monitor": Process(2, 1, 0.0), "worker": Process(3, 2, 0.0), "exit_code": code}
    return MonitorRecord(**{**fields, "has_ended": code is not None, **changes})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (monitor_record(0), RunOutcome(RunState.FINISHED, "", 0)),
        (monitor_record(3), RunOutcome(RunState.FAILED, "the process ended with exit code 3: last", 3)),
        (monitor_record(-9), RunOutcome(RunState.FAILED, "the process was ended by SIGKILL", 137, "SIGKILL")),
        (monitor_record(-11), RunOutcome(RunState.FAILED, "the process was ended by SIGSEGV", 139, "SIGSEGV")),
        (monitor_record(143, is_stopping=True), RunOutcome(RunState.CANCELLED, "", 143)),
        (monitor_record(0, is_stopping=True), RunOutcome(RunState.CANCELLED, "", 0)),
        (
            monitor_record(-9, is_stopping=True),
            RunOutcome(RunState.CANCELLED, "killed, because it did not stop within the grace period", 137, "SIGKILL"),
        ),
        (
            monitor_record(-9, is_out_of_memory=True, used_mb=120),
            RunOutcome(RunState.FAILED, "out of memory: 120 MB used, 100 MB allowed", 137, "SIGKILL"),
        ),
        (None, RunOutcome(RunState.LOST, GONE, None)),
        (monitor_record(), RunOutcome(RunState.LOST, GONE, None)),
        (monitor_record(0, attempt=7), RunOutcome(RunState.LOST, GONE, None)),
    ],
)
def test_every_exit_has_a_state_and_a_cause(found, expected):
    assert determine_outcome(found, SUBMISSION, ["first", "last"]) == expected


def test_a_stopped_run_without_an_exit_code_is_cancelled_not_lost():
    assert determine_outcome(monitor_record(), SUBMISSION, [], is_stopped=True).state is RunState.CANCELLED


@pytest.fixture
def directory(tmp_path):
    return RunStore(tmp_path).create(RunRequest("script", "", {}), {})


def events(directory):
    return [entry.event for entry in read_journal(directory.journal_file)][1:]


def test_a_worker_that_never_reported_running_is_finalized(directory):
    record = finalize_run(directory, read_written_record(directory), SUBMISSION, monitor_record(0), SystemClock())
    assert record.state is RunState.FINISHED
    assert read_written_record(directory) == record
    assert events(directory) == ["worker.ended", "run.finished"]


def test_a_final_status_of_the_worker_is_stored(directory):
    queued = read_written_record(directory)
    own = with_state(
        with_state(queued, RunState.RUNNING), RunState.FAILED, failure="non-finite loss at update 7", exit_code=1
    )
    write_record(directory, own)
    record = finalize_run(directory, queued, SUBMISSION, monitor_record(1), SystemClock())
    assert record == own
    assert events(directory) == ["worker.ended"]


def test_a_damaged_status_is_replaced_by_the_last_known_one(directory):
    known = read_written_record(directory)
    directory.status_file.write_text("{")
    finalize_run(directory, known, SUBMISSION, monitor_record(-9), SystemClock())
    assert read_written_record(directory).failure == "the process was ended by SIGKILL"


def test_an_unwritable_status_does_not_stop_the_daemon(directory, monkeypatch):
    def full(*_arguments, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("palaestra.daemon.run_outcome.write_record", full)
    record = finalize_run(directory, read_written_record(directory), SUBMISSION, monitor_record(0), SystemClock())
    assert record.state is RunState.FINISHED


@pytest.mark.parametrize(("is_stopped", "state"), [(False, RunState.FAILED), (True, RunState.CANCELLED)])
def test_a_run_that_could_not_start_has_a_reason(directory, is_stopped, state):
    directory.monitor_log_file().write_text("Traceback\nOSError: no room\n")
    record = fail_run(directory, read_written_record(directory), SystemClock(), is_stopped=is_stopped)
    assert (record.state, record.failure) == (state, "could not be started: OSError: no room")


def directory_with(tmp_path, content):
    directory = RunDirectory(tmp_path / "run").make()
    directory.output_file().write_bytes(content)
    return directory


def test_only_the_last_lines_are_read(tmp_path):
    content = b"".join(b"line %d\n" % number for number in range(5000))
    assert read_output_tail(directory_with(tmp_path, content)) == [
        f"line {number}" for number in range(5000 - MAX_LINES, 5000)
    ]


@pytest.mark.fault("W11")
def test_control_characters_in_the_output_are_escaped(tmp_path):
    content = b"\x1b[31mred\x07\n\xff\xfe binary \x00\nprogress 1\rprogress 2\n\xe2\x80\xae backwards\n"
    tail = read_output_tail(directory_with(tmp_path, content))
    assert tail[-1].startswith("\\u202e")
    assert all(line.isprintable() for line in tail)
    assert "progress 2" in tail


def test_the_last_lines_are_found_after_a_truncation(tmp_path):
    directory = directory_with(tmp_path, b"[dropped]\n")
    directory.earlier_output_file().write_bytes(b"x" * 10_000 + b"\nlast words\n")
    assert read_output_tail(directory)[-2:] == ["last words", "[dropped]"]


def test_a_very_long_line_is_shortened(tmp_path):
    tail = read_output_tail(directory_with(tmp_path, b"x" * 1_000_000))
    assert [len(line) for line in tail] == [MAX_LINE]


def test_no_file_has_no_lines_and_a_link_is_not_followed(tmp_path):
    directory = RunDirectory(tmp_path / "run").make()
    assert read_output_tail(directory) == []
    secret = tmp_path / "secret"
    secret.write_text("key")
    directory.output_file().symlink_to(secret)
    assert read_last_bytes(directory.output_file()) == b""
