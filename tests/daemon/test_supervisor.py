"""What the supervising thread does beyond what test_service, test_survival and test_endings show."""

import os
import resource
import signal
import sys
import time
from dataclasses import replace

import psutil
import pytest
from daemon_scripts import open_daemon, script

from palaestra.core import plugins
from palaestra.core.run import RunRequest, RunState
from palaestra.daemon import supervisor
from palaestra.daemon.monitor_handle import read_monitor_record
from palaestra.daemon.process_tree import find_process
from palaestra.rendering.frame_buffer import frame_buffer_path, remove_dead_frame_buffers
from palaestra.runs.status import read_written_record, with_state, write_record
from palaestra.runs.store import RunStore

SLEEP = "import time; time.sleep(1000)"


def test_progress_of_a_worker_is_noticed_and_so_is_its_silence(serve, wait_until):
    daemon = serve(silence_seconds=0.3)
    entry = daemon.submit(script(SLEEP))
    directory = daemon.directory(entry.id)
    wait_until(lambda: read_written_record(directory).pid, "its process")
    record = read_written_record(directory)
    write_record(directory, replace(record, agent_step=512, summary={"episodic_return": 7.0}))
    wait_until(lambda: daemon.get(entry.id).record.agent_step == 512, "its step")
    assert daemon.get(entry.id).record.summary == {"episodic_return": 7.0}
    wait_until(lambda: daemon.get(entry.id).is_silent, "its silence")
    write_record(directory, replace(record, agent_step=513))
    wait_until(lambda: not daemon.get(entry.id).is_silent, "its voice")


def test_a_run_with_a_final_status_is_running_until_its_process_has_ended(serve, wait_until):
    daemon = serve()
    entry = daemon.submit(script(SLEEP, nproc=2))
    directory = daemon.directory(entry.id)
    wait_until(lambda: read_written_record(directory).pid, "its process")
    over = {"agent_step": 9, "exit_code": 0, "ended_at": 5.0}
    write_record(directory, with_state(read_written_record(directory), RunState.FINISHED, **over))
    wait_until(lambda: daemon.get(entry.id).record.agent_step == 9, "its word")
    shown = daemon.get(entry.id).record
    assert (shown.state, shown.exit_code, shown.ended_at) == (RunState.RUNNING, None, None)
    assert daemon.slots().used.cpus == 2
    os.kill(read_monitor_record(directory).worker.pid, signal.SIGKILL)
    ended = daemon.wait(entry.id, 30).record
    assert (ended.state, ended.exit_code, ended.ended_at) == (RunState.FINISHED, 0, 5.0)


def test_a_queued_run_started_by_another_process_is_not_started_again(serve, wait_until):
    daemon = serve()
    busy = daemon.submit(script(SLEEP, nproc=2))
    taken = daemon.submit(script("print('by the daemon')"))
    directory = daemon.directory(taken.id)
    record = with_state(read_written_record(directory), RunState.RUNNING, pid=os.getpid())
    write_record(directory, record)
    daemon.stop(busy.id)
    daemon.wait(busy.id, 30)
    wait_until(lambda: daemon.get(taken.id).state is RunState.RUNNING, "the daemon to see it")
    assert not directory.output_file().exists()
    write_record(directory, with_state(record, RunState.FINISHED))
    wait_until(lambda: daemon.get(taken.id).state is RunState.FINISHED, "its end")


def test_a_dead_external_run_is_lost_and_a_living_one_can_be_stopped(serve, home, wait_until):
    daemon = serve()
    directory = RunStore(home).create(RunRequest("script", "", {"code": "pass"}), {"code": "pass"}, "by-hand")
    write_record(
        directory, with_state(read_written_record(directory), RunState.RUNNING, pid=2**22 - 1, pid_started_at=1.0)
    )
    wait_until(lambda: daemon.runs() and daemon.get("by-hand").state is RunState.LOST, "its loss")
    retried = daemon.retry("by-hand")
    assert (retried.submission.attempt, retried.id) == (1, directory.id)
    assert daemon.wait("by-hand", 30).state is RunState.FINISHED


@pytest.mark.fault("G15")
def test_without_file_descriptors_no_run_starts_until_there_are_some(serve, wait_until, monkeypatch):
    monkeypatch.setattr(supervisor, "RETRY_START_SECONDS", 0.1)
    daemon = serve()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    busy = daemon.submit(script(SLEEP, nproc=2))
    wait_until(lambda: daemon.get(busy.id).record.pid, "its process")
    waiting = daemon.submit(script("pass"))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds(), before[1]))
        time.sleep(0.5)  # not a condition: a few looks that must not judge what they cannot see
        assert daemon.get(busy.id).state is RunState.RUNNING
        os.kill(daemon.get(busy.id).record.pid, signal.SIGKILL)
        time.sleep(0.5)
        assert daemon.get(waiting.id).state is RunState.QUEUED
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert daemon.wait(waiting.id, 30).state is RunState.FINISHED
    assert daemon.wait(busy.id, 30).state is RunState.FAILED


def test_runs_of_a_missing_kind_fail_with_its_name(home, monkeypatch):
    monkeypatch.setattr(plugins, "names", lambda group: [])  # or the real kind of that name would be found
    with open_daemon(home) as daemon:
        busy = daemon.submit(script(SLEEP, nproc=2))
        waiting = daemon.submit(script("pass"))
    with open_daemon(home) as daemon:
        daemon.kinds._own.clear()
        daemon.stop(busy.id, grace_seconds=0)
        done = daemon.wait(waiting.id, 30)
    assert done.state is RunState.FAILED
    assert "No worker kind named 'script'" in done.record.failure


def test_a_monitor_that_does_not_respond_is_bypassed(serve, wait_until):
    daemon = serve(grace_seconds=0.2)
    entry = daemon.submit(script(SLEEP))
    directory = daemon.directory(entry.id)
    monitor_record = wait_until(
        lambda: (found := read_monitor_record(directory)) and found.worker and found, "its worker"
    )
    os.kill(monitor_record.monitor.pid, signal.SIGSTOP)
    daemon.stop(entry.id)
    assert daemon.wait(entry.id, 30).state.is_over
    assert daemon.get(entry.id).state is RunState.CANCELLED
    assert find_process(monitor_record.worker.pid) is None


DIE_WITH_A_LANE = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from palaestra.rendering.frame_buffer import FrameBufferOwner
from palaestra.rendering.frame_buffer import frame_buffer_path
from palaestra.runs.processes import process_started_at
FrameBufferOwner(frame_buffer_path(os.environ["PALAESTRA_RUN_ID"]), 2, 1000, process_started_at(os.getpid()))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_frame_buffer_of_a_killed_worker_is_removed(serve, wait_until, tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_FRAME_BUFFERS_DIR", str(tmp_path))
    swept = []
    monkeypatch.setattr(
        supervisor, "remove_dead_frame_buffers", lambda is_alive: swept.extend(remove_dead_frame_buffers(is_alive))
    )
    daemon = serve()
    entry = daemon.submit(script(DIE_WITH_A_LANE))
    wait_until(lambda: daemon.get(entry.id).state.is_over, "its end")
    assert swept == [frame_buffer_path(entry.id)]
    assert not frame_buffer_path(entry.id).exists()
