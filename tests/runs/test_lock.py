from __future__ import annotations

import errno
import os
import signal
import stat

import pytest

from palaestra.core.errors import UsageError
from palaestra.runs.directory import RunDirectory
from palaestra.runs.lock import AlreadyHeld, hold, run_lock

HOLD = """
import sys; from pathlib import Path
from palaestra.runs.directory import RunDirectory
from palaestra.runs.lock import AlreadyHeld, hold, run_lock
with run_lock(RunDirectory(Path(sys.argv[1]))):
    print("locked", flush=True); input()
"""
HOLD_WITH_CHILD = """
import os, sys, time; from pathlib import Path
from palaestra.runs.directory import RunDirectory
from palaestra.runs.lock import AlreadyHeld, hold, run_lock
with run_lock(RunDirectory(Path(sys.argv[1]))):
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)  # by now Python has let go of what must not be inherited
        time.sleep(60)
        os._exit(0)
    input()
"""


def is_locked(directory) -> bool:
    try:
        with run_lock(directory):
            return False
    except UsageError:
        return True


@pytest.mark.fault("G10")
def test_a_second_holder_is_refused_with_the_run_and_the_pid_of_the_first(directory, start_python):
    child = start_python(HOLD, directory.path)
    with pytest.raises(UsageError, match=f"Run 'a' is being trained by process {child.pid}") as caught:
        with run_lock(directory):
            pytest.fail("the lock was given twice")
    assert caught.value.exit_code == 2
    assert is_locked(directory)


@pytest.mark.fault("G10")
def test_kill_9_frees_the_lock(directory, start_python):
    child = start_python(HOLD, directory.path)
    child.send_signal(signal.SIGKILL)
    child.wait()
    with run_lock(directory):
        assert is_locked(directory)
    assert not is_locked(directory)


@pytest.mark.fault("G10")
def test_a_forked_worker_that_survives_its_trainer_does_not_keep_the_lock(directory, start_python):
    trainer = start_python(HOLD_WITH_CHILD, directory.path)
    worker = int(trainer.first_line)
    try:
        trainer.kill()
        trainer.wait()
        os.kill(worker, 0)  # still there
        with run_lock(directory):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_child_that_lets_go_does_not_free_the_parent_s_lock(directory):
    with run_lock(directory):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert is_locked(directory)


def test_the_lock_is_free_again_after_an_error_in_the_block(directory):
    with pytest.raises(KeyError), run_lock(directory):
        raise KeyError
    with run_lock(directory):
        pass


def test_a_run_without_status_is_named_by_its_id(tmp_path, start_python):
    directory = RunDirectory(tmp_path / "01J8Z3K4M5N6P7Q8R9S0T1V2W3").make()
    start_python(HOLD, directory.path)
    with pytest.raises(UsageError, match=directory.id), run_lock(directory):
        pass


def test_a_directory_that_is_gone_is_reported_plainly(tmp_path):
    with pytest.raises(UsageError, match="No such file"), run_lock(RunDirectory(tmp_path / "gone")):
        pass


def test_a_full_disk_does_not_keep_the_lock_from_holding(tmp_path, monkeypatch):
    def no_space(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("palaestra.runs.lock.os.pwrite", no_space)
    with hold(tmp_path / "lock"), pytest.raises(AlreadyHeld) as refused, hold(tmp_path / "lock"):
        pass
    assert refused.value.pid is None


def test_the_file_names_its_holder_and_afterwards_nobody(tmp_path):
    path = tmp_path / "lock"
    path.write_text("9" * 30)  # of one that was killed
    with hold(path):
        assert path.read_text() == f"{os.getpid()}\n"
        with pytest.raises(AlreadyHeld) as refused, hold(path):
            pass
        assert refused.value.pid == os.getpid()
    assert path.read_bytes() == b""


def test_a_new_lock_is_for_its_owner_alone(tmp_path):
    with hold(tmp_path / "lock"):
        assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


def test_children_keep_what_got_the_number_of_a_lock_that_was_given_back(tmp_path):
    with hold(tmp_path / "lock"):
        pass
    with (tmp_path / "other").open("w") as other:
        child = os.fork()
        if child == 0:
            try:
                os.fstat(other.fileno())
            except OSError:
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_children_of_children_keep_what_got_the_number_of_a_lock_that_their_parent_let_go(tmp_path):
    with hold(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            first_free = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
            grandchild = os.fork()
            if grandchild == 0:
                try:
                    os.fstat(first_free)
                except OSError:
                    os._exit(1)
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_refusal_says_who_holds_the_lock():
    assert str(AlreadyHeld(17)) == "held by process 17"


def test_whoever_holds_a_run_clears_away_what_a_killed_holder_left_half_written(directory, dead_pid):
    left, living = (directory.path / f".tmp-{pid}-1-status.json" for pid in (dead_pid, os.getppid()))
    for path in (left, living):
        path.write_text("{")
    with run_lock(directory):
        assert not left.exists()
        assert living.exists()
