import os
import signal
import subprocess
import sys

import pytest

from palaestra.daemon.process_tree import (
    RUN_ID_VARIABLE,
    Process,
    find_members,
    find_process,
    kill_members,
    resident_bytes,
    send_signal,
)
from palaestra.runs.processes import process_started_at

RUN = "01M7H5H1TJ9XS3KR3PDYDV077C"
SLEEP = "import time; time.sleep(1000)"


@pytest.fixture
def start():
    started = []

    def go(code=SLEEP, run_id=RUN):
        variables = {**os.environ, RUN_ID_VARIABLE: run_id}
        started.append(subprocess.Popen([sys.executable, "-S", "-c", code], env=variables, stdout=subprocess.PIPE))
        return started[-1]

    yield go
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_process_is_identified_by_pid_and_start_time():
    found = find_process(os.getpid())
    assert found == Process(os.getpid(), os.getppid(), process_started_at(os.getpid()))


def test_a_zombie_and_a_pid_without_process_are_none():
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert find_process(child.pid) is None
    child.wait()
    assert find_process(child.pid) is None


def test_only_processes_with_the_run_id_are_members(start):
    own, other = start(), start(run_id="01M7H5H1TJ9XS3KR3PDYDV0000")
    assert [process.pid for process in find_members(RUN, None)] == [own.pid]
    assert other.poll() is None


def test_a_child_without_the_id_is_found_below_a_process_with_it(start):
    code = (
        "import os, subprocess, sys; print(subprocess.Popen([sys.executable, '-S', '-c', %r], env={}).pid, flush=True)"
    )
    start(code % SLEEP + "; import time; time.sleep(1000)")
    parent = start(code % SLEEP + "; import time; time.sleep(1000)")
    pid = int(parent.stdout.readline())
    members = {process.pid for process in find_members(RUN, None)}
    assert {parent.pid, pid} <= members
    assert kill_members(lambda: find_members(RUN, None), 5.0) == 0


@pytest.mark.fault("G4")
def test_another_process_with_a_reused_pid_is_never_signalled(start):
    process = start()
    found = find_process(process.pid)
    stranger = Process(found.pid, found.parent, found.started_at - 1.0)
    assert send_signal(stranger, signal.SIGKILL) is False
    assert process.poll() is None
    assert send_signal(found, signal.SIGKILL) is True
    assert process.wait() == -signal.SIGKILL
    assert send_signal(found, signal.SIGKILL) is False


def test_processes_started_during_the_kill_are_killed_too(start):
    """For a while it has a child every few milliseconds, each in a session of its own."""
    code = (
        "import os, time\n"
        "end = time.monotonic() + 1.0\n"
        "while time.monotonic() < end:\n"
        "    if os.fork() == 0:\n"
        "        os.setsid(); time.sleep(1000)\n"
        "    time.sleep(0.005)\n"
        "time.sleep(1000)\n"
    )
    start(code)
    while len(find_members(RUN, None)) < 8:
        pass
    assert kill_members(lambda: find_members(RUN, None), 10.0) == 0


def test_memory_is_the_sum_over_all_processes(start):
    process = start("block = b'x' * (64 << 20); print(len(block), flush=True); import time; time.sleep(1000)")
    process.stdout.readline()
    used = resident_bytes(find_members(RUN, None))
    assert 64 << 20 < used < 100 << 20
