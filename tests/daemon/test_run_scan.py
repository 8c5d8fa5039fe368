import fcntl
import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from palaestra.core.run import RunRequest, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.process_tree import find_process
from palaestra.daemon.run_entry import Submission, stamped_submission
from palaestra.daemon.run_scan import (
    StartupState,
    find_startup_state,
    list_run_ids,
    read_entry,
    refresh_external,
    status_stamp_of,
)
from palaestra.runs.status import read_written_record, with_state, write_record
from palaestra.runs.store import RunStore

SUBMISSION = Submission(1, 2, Resources())


@pytest.fixture
def accepted(tmp_path):
    return RunStore(tmp_path).create(RunRequest("script", "", {}), {}, queue=stamped_submission(SUBMISSION))


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"])
    yield find_process(process.pid)
    process.kill()
    process.wait()


def write_note(directory, worker=None, ended=None, attempt=2):
    content = {"schema_version": 1, "attempt": attempt, "keeper": {"pid": 4_000_000, "started_at": 1.0}, "gpus": []}
    content |= {"worker": worker and {"pid": worker.pid, "started_at": worker.started_at}, "stopping": False}
    directory.monitor_file.write_text(json.dumps(content | {"out_of_memory": False, "exit": ended}))


@contextmanager
def lock(directory):
    descriptor = os.open(directory.monitor_lock_file, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


def startup_state(directory):
    return find_startup_state(directory, read_entry(directory))


def move_to(directory, *states):
    record = read_written_record(directory)
    for state in states:
        record = with_state(record, state)
    write_record(directory, record)


def test_an_accepted_run_that_never_started_is_waiting(accepted):
    assert startup_state(accepted) is StartupState.WAITING
    write_note(accepted)  # its keeper was killed before it started anything
    assert startup_state(accepted) is StartupState.WAITING
    write_note(accepted, find_process(os.getpid()), {"code": 1}, attempt=1)  # of the attempt before this one
    assert startup_state(accepted) is StartupState.WAITING


def test_a_held_lock_means_monitored_even_without_a_record(accepted):
    with lock(accepted):
        assert startup_state(accepted) is StartupState.MONITORED
    assert startup_state(accepted) is StartupState.WAITING


def test_without_a_monitor_a_living_worker_is_unmonitored_and_a_dead_one_unrecorded(accepted, sleeper):
    move_to(accepted, RunState.RUNNING)
    write_note(accepted, sleeper)
    assert startup_state(accepted) is StartupState.UNMONITORED
    write_note(accepted, type(sleeper)(sleeper.pid, 0, sleeper.started_at + 1))  # the same pid, another process
    assert startup_state(accepted) is StartupState.UNRECORDED
    write_note(accepted, sleeper, {"code": 0})
    assert startup_state(accepted) is StartupState.UNRECORDED


def test_a_finished_run_is_over(accepted):
    move_to(accepted, RunState.CANCELLED)
    assert startup_state(accepted) is StartupState.OVER


def test_a_run_continued_by_another_process_is_external(accepted):
    move_to(accepted, RunState.RUNNING)
    assert startup_state(accepted) is StartupState.EXTERNAL


def test_a_run_without_a_submission_is_never_started(tmp_path):
    directory = RunStore(tmp_path).create(RunRequest("native", "cartpole", {}), {})
    assert startup_state(directory) is StartupState.EXTERNAL
    move_to(directory, RunState.RUNNING)
    assert refresh_external(read_entry(directory)).state is RunState.LOST  # it says that it runs, and no process does


@pytest.mark.parametrize("name", ["status_file", "queue_file"])
def test_a_damaged_run_is_listed_as_lost_and_never_started(accepted, name):
    getattr(accepted, name).write_text("[")
    entry = read_entry(accepted)
    assert (entry.state, entry.id, entry.is_waiting) == (RunState.LOST, accepted.id, False)
    assert entry.record.failure.startswith("damaged:")


def test_the_stamp_changes_with_every_replacement(accepted):
    before = status_stamp_of(accepted)
    write_record(accepted, read_written_record(accepted))
    assert status_stamp_of(accepted) != before
    accepted.status_file.unlink()
    assert status_stamp_of(accepted) == ""


def test_only_directories_with_an_id_are_runs(accepted, tmp_path):
    (tmp_path / "01M7H5H1TJ9XS3KR3PDYDV0000").write_text("a file")
    (tmp_path / "01M7H5H1TJ9XS3KR3PDYDV0001").symlink_to("/etc")
    (tmp_path / ".palaestra").mkdir()
    assert list_run_ids(tmp_path) == {accepted.id}
    assert list_run_ids(tmp_path / "nowhere") == set()
