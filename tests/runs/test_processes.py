from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from palaestra.runs.processes import is_alive, process_started_at, terminate, wall_time

WAIT = "print('ready', flush=True); input()"


def test_the_start_time_of_a_process_agrees_with_psutil():
    since_boot = process_started_at(os.getpid())
    assert abs(psutil.boot_time() + since_boot - psutil.Process().create_time()) < 2.0


def test_the_start_time_stays_the_same_while_the_process_lives():
    assert process_started_at(os.getpid()) == process_started_at(os.getpid())


def test_a_later_process_started_later(start_python):
    child = start_python(WAIT)
    assert process_started_at(child.pid) > process_started_at(os.getpid())


def test_there_is_no_start_time_for_a_pid_that_nobody_has():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert process_started_at(process.pid) is None
    assert process_started_at(0) is None
    assert process_started_at(-1) is None


def test_a_zombie_is_not_alive():
    process = subprocess.Popen([sys.executable, "-c", ""])
    deadline = time.monotonic() + 20
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
    assert not is_alive(process.pid, None)
    process.wait()


def test_a_process_with_blanks_and_brackets_in_its_name_is_understood(start_python):
    child = start_python("open('/proc/self/comm', 'w').write('a) Z (b'); print('ready', flush=True); input()")
    assert is_alive(child.pid, process_started_at(child.pid))


def test_a_reused_pid_with_another_start_time_is_a_third_party():
    assert is_alive(os.getpid(), process_started_at(os.getpid()))
    assert not is_alive(os.getpid(), process_started_at(os.getpid()) - 1.0)
    assert not is_alive(None, None)


def test_terminate_signals_the_process_that_is_meant(start_python):
    child = start_python(WAIT)
    assert terminate(child.pid, process_started_at(child.pid), signal.SIGTERM)
    assert child.wait(20) == -signal.SIGTERM


@pytest.mark.fault("G4")
def test_terminate_never_signals_a_third_party_with_the_same_pid(start_python):
    child = start_python(WAIT)
    assert not terminate(child.pid, process_started_at(child.pid) - 1.0, signal.SIGKILL)
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.wait(20) == 0


def test_terminate_says_when_the_process_is_gone(start_python):
    child = start_python(WAIT)
    started_at = process_started_at(child.pid)
    child.kill()
    child.wait()
    assert not terminate(child.pid, started_at)


def test_the_start_of_a_process_can_be_reported_by_the_clock_on_the_wall():
    before = time.time()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = wall_time(process_started_at(child.pid))
        after = time.time()
        child.stdin.close()
    assert before - 1 < started < after + 1  # ticks of a hundredth of a second, and a clock that may be set meanwhile
