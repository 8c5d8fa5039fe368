import pytest

from palaestra.core.clock import SystemClock
from palaestra.core.run import RunRequest, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.keeping import Note
from palaestra.daemon.settling import End, fail, judge_end, settle
from palaestra.daemon.ticket import Terms, Ticket
from palaestra.daemon.tree import Process
from palaestra.runs.journal import read_journal
from palaestra.runs.status import moved, read_written_record, write_record
from palaestra.runs.store import RunStore

TICKET = Ticket(1, 1, Resources(), Terms(memory_mb=100))
GONE = "its process is gone, and nobody saw how it ended (killed, or the machine stopped)"


def note(code=None, **changes):
    fields = {"attempt": 1, "keeper": Process(2, 1, 0.0), "worker": Process(3, 2, 0.0), "exit_code": code}
    return Note(**{**fields, "has_ended": code is not None, **changes})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (note(0), End(RunState.FINISHED, "", 0)),
        (note(3), End(RunState.FAILED, "its process ended with exit code 3: last", 3)),
        (note(-9), End(RunState.FAILED, "its process was ended by SIGKILL", 137, "SIGKILL")),
        (note(-11), End(RunState.FAILED, "its process was ended by SIGSEGV", 139, "SIGSEGV")),
        (note(143, is_stopping=True), End(RunState.CANCELLED, "", 143)),
        (note(0, is_stopping=True), End(RunState.CANCELLED, "", 0)),
        (
            note(-9, is_stopping=True),
            End(RunState.CANCELLED, "it did not stop when asked, and was killed", 137, "SIGKILL"),
        ),
        (
            note(-9, is_out_of_memory=True, used_mb=120),
            End(RunState.FAILED, "out of memory: 120 MB used, 100 MB allowed", 137, "SIGKILL"),
        ),
        (None, End(RunState.LOST, GONE, None)),
        (note(), End(RunState.LOST, GONE, None)),
        (note(0, attempt=7), End(RunState.LOST, GONE, None)),
    ],
)
def test_every_end_has_its_state_and_its_cause(found, expected):
    assert judge_end(found, TICKET, ["first", "last"]) == expected


def test_who_was_told_to_stop_and_is_gone_is_cancelled_and_not_lost():
    assert judge_end(note(), TICKET, [], is_stopped=True).state is RunState.CANCELLED


@pytest.fixture
def directory(tmp_path):
    return RunStore(tmp_path).create(RunRequest("script", "", {}), {})


def events(directory):
    return [entry.event for entry in read_journal(directory.journal_file)][1:]


def test_a_worker_that_never_said_it_ran_is_settled_all_the_same(directory):
    record = settle(directory, read_written_record(directory), TICKET, note(0), SystemClock())
    assert record.state is RunState.FINISHED
    assert read_written_record(directory) == record
    assert events(directory) == ["worker.ended", "run.finished"]


def test_what_the_worker_itself_wrote_at_its_end_stands(directory):
    queued = read_written_record(directory)
    own = moved(moved(queued, RunState.RUNNING), RunState.FAILED, failure="non-finite loss at update 7", exit_code=1)
    write_record(directory, own)
    record = settle(directory, queued, TICKET, note(1), SystemClock())
    assert record == own
    assert events(directory) == ["worker.ended"]


def test_a_damaged_status_is_replaced_by_what_was_known(directory):
    known = read_written_record(directory)
    directory.status_file.write_text("{")
    settle(directory, known, TICKET, note(-9), SystemClock())
    assert read_written_record(directory).failure == "its process was ended by SIGKILL"


def test_a_status_that_cannot_be_written_does_not_stop_the_daemon(directory, monkeypatch):
    def full(*_arguments, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("palaestra.daemon.settling.write_record", full)
    record = settle(directory, read_written_record(directory), TICKET, note(0), SystemClock())
    assert record.state is RunState.FINISHED


@pytest.mark.parametrize(("is_stopped", "state"), [(False, RunState.FAILED), (True, RunState.CANCELLED)])
def test_a_worker_that_was_never_started_says_why(directory, is_stopped, state):
    directory.keeper_log_file().write_text("Traceback\nOSError: no room\n")
    record = fail(directory, read_written_record(directory), SystemClock(), is_stopped=is_stopped)
    assert (record.state, record.failure) == (state, "it could not be started: OSError: no room")
