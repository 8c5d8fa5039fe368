from __future__ import annotations

import json
import os
import select
import signal
import sys

import pytest

from palaestra.core.run import RunRequest
from palaestra.daemon.monitor_handle import (
    MonitoredRun,
    is_monitored,
    is_running,
    read_monitor_record,
    request_kill,
    start_monitor,
)
from palaestra.daemon.process_tree import RUN_ID_VARIABLE, Process, find_process
from palaestra.daemon.run_monitor import MonitorSettings
from palaestra.runs.store import RunStore


@pytest.fixture
def directory(home):
    return RunStore(home).create(RunRequest("script", "", {}), {})


def settings(directory, code):
    files = (directory.monitor_file, directory.status_file, directory.output_file(), directory.earlier_output_file())
    paths = [str(path) for path in files]
    return MonitorSettings(
        directory.id, 3, [sys.executable, "-S", "-c", code], {"OWN": "yes"}, *paths, 1 << 20, 5.0, 0, [1], -1
    )


def test_a_monitor_starts_its_worker_and_records_the_attempt(directory):
    pid = start_monitor(directory, settings(directory, "import os; print(os.environ['OWN'])"))
    os.waitpid(pid, 0)
    monitor_record = read_monitor_record(directory)
    assert (monitor_record.attempt, monitor_record.monitor.pid, monitor_record.gpus, monitor_record.exit_code) == (
        3,
        pid,
        (1,),
        0,
    )
    assert directory.output_file().read_text() == "yes\n"


def test_a_run_has_at_most_one_monitor(directory):
    pid = start_monitor(directory, settings(directory, "import time; time.sleep(1000)"))
    monitor = find_process(pid)
    try:
        assert is_monitored(directory)
        with pytest.raises(BlockingIOError):
            start_monitor(directory, settings(directory, "pass"))
    finally:
        request_kill(monitor)
        os.waitpid(pid, 0)
    assert not is_monitored(directory)
    assert not is_running(monitor)


def test_a_daemon_inside_a_run_does_not_pass_on_the_id_of_that_run(directory, monkeypatch):
    monkeypatch.setenv(RUN_ID_VARIABLE, "01M7H5H1TJ9XS3KR3PDYDV0000")
    pid = start_monitor(directory, settings(directory, f"import os; print(os.environ['{RUN_ID_VARIABLE}'])"))
    os.waitpid(pid, 0)
    assert directory.output_file().read_text().strip() == directory.id


def test_the_signal_mask_of_the_daemon_is_restored(directory):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    os.waitpid(start_monitor(directory, settings(directory, "pass")), 0)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"schema_version": 9}', json.dumps({"schema_version": 1, "attempt": 1})]
)
def test_an_unreadable_record_is_none(directory, content):
    directory.monitor_file.write_text(content)
    assert read_monitor_record(directory) is None


def test_a_reused_pid_is_not_the_same_process():
    own = find_process(os.getpid())
    assert is_running(own)
    assert not is_running(Process(own.pid, own.parent, own.started_at + 1.0))


SLEEP = "import time; time.sleep(1000)"


@pytest.fixture
def run(home):
    def start(code):
        directory = RunStore(home).create(RunRequest("script", "", {}), {})
        files = (
            directory.monitor_file,
            directory.status_file,
            directory.output_file(),
            directory.earlier_output_file(),
        )
        argv = [sys.executable, "-S", "-c", code]
        paths = [str(path) for path in files]
        pid = start_monitor(directory, MonitorSettings(directory.id, 1, argv, {}, *paths, 1 << 20, 5.0, 0, [], -1))
        return directory, pid

    return start


def is_zombie(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_for_end(monitored_run):
    poll = select.poll()
    poll.register(monitored_run.pidfd, select.POLLIN)
    assert poll.poll(30_000), "its handle never told of the end"


def test_the_pidfd_signals_the_end_and_no_zombie_is_left(run):
    directory, pid = run("pass")
    monitored_run = MonitoredRun(directory, 1, pid)
    wait_for_end(monitored_run)
    assert monitored_run.has_ended()
    assert is_zombie(pid)
    monitored_run.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def test_an_adopted_monitor_is_identified_by_its_record(run, wait_until):
    directory, pid = run(SLEEP)
    monitored_run = MonitoredRun(directory, 1)
    assert (monitored_run.pidfd, monitored_run.has_ended()) == (None, False)
    wait_until(monitored_run.find_monitor, "its note")
    assert monitored_run.pid == pid
    monitored_run.request_stop()
    wait_for_end(monitored_run)
    monitored_run.close()


def test_the_record_of_another_attempt_is_ignored(run, wait_until):
    directory, pid = run("pass")
    MonitoredRun(directory, 1, pid)
    wait_until(lambda: is_zombie(pid), "its end")
    assert MonitoredRun(directory, 2).monitor_record() is None
    assert MonitoredRun(directory, 1).monitor_record() is not None
    os.waitpid(pid, 0)


def test_without_a_monitor_the_worker_itself_is_watched_and_killed(run, wait_until):
    directory, pid = run(SLEEP)
    monitored_run = MonitoredRun(directory, 1, pid)
    monitor_record = wait_until(
        lambda: (found := monitored_run.monitor_record()) and found.worker and found, "the worker"
    )
    os.kill(pid, 9)
    wait_for_end(monitored_run)
    monitored_run.watch_worker(monitor_record.worker)
    assert not monitored_run.has_ended()
    monitored_run.kill()
    wait_for_end(monitored_run)
    assert find_process(monitor_record.worker.pid) is None
    monitored_run.close()


def test_printed_output_counts_as_activity(run, wait_until):
    directory, pid = run("import sys; print('a word', flush=True); sys.stdin.read(); import time; time.sleep(1000)")
    monitored_run = MonitoredRun(directory, 1, pid)
    wait_until(lambda: directory.output_file().exists() and directory.output_file().read_text(), "its word")
    assert monitored_run.has_new_output()
    assert not monitored_run.has_new_output()
    monitored_run.kill()
    wait_for_end(monitored_run)
    monitored_run.close()


def test_killing_the_tree_kills_the_monitor_too(run, wait_until):
    directory, pid = run(SLEEP)
    monitored_run = MonitoredRun(directory, 1, pid)
    wait_until(lambda: (found := monitored_run.monitor_record()) and found.worker, "the worker")
    assert monitored_run.kill_tree() == 0
    wait_for_end(monitored_run)
    monitored_run.close()
