"""The daemon is killed, its workers are killed, its keepers are killed: nothing is lost, nothing runs twice."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from daemon_scripts import open_daemon, script

from palaestra.core.run import RunState
from palaestra.daemon.monitor_handle import read_monitor_record
from palaestra.daemon.process_tree import find_members, find_process, send_signal
from palaestra.runs.journal import read_journal

PROGRAM = Path(__file__).with_name("daemon_scripts.py")
SLEEP = "import time; time.sleep(1000)"


def seconds_since_boot():
    """Processes are told apart by their start, which the kernel counts in hundredths of a second."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Served:
    """A daemon as a program of its own."""

    def __init__(self, home, acknowledged, starts):
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(home), str(acknowledged), str(starts)], stdout=subprocess.PIPE
        )

    def wait_until_ready(self):
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def lines(path):
    return path.read_text().split() if path.exists() else []


def kill_again_and_again(home, kills, chance, wait_until):
    acknowledged, starts = home.parent / "acknowledged", home.parent / "starts"
    for _ in range(kills):
        served = Served(home, acknowledged, starts)
        if chance.random() < 0.8:  # else also while it gathers what it finds
            served.wait_until_ready()
            goal = len(lines(acknowledged)) + chance.randrange(5)
            wait_until(lambda: len(lines(acknowledged)) >= goal, f"{goal} accepted requests")  # noqa: B023  at once
        time.sleep(chance.uniform(0.0, 0.2))  # not a condition: any instant will do
        served.kill()
    return acknowledged, starts


@pytest.mark.fault("G1")
@pytest.mark.slow
@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.chaos)])
def test_a_daemon_killed_at_any_instant_runs_each_accepted_request_exactly_once(
    home, kills, wait_until, figure, chaos_seed
):
    chance = random.Random(kills + chaos_seed)
    acknowledged, starts = kill_again_and_again(home, kills, chance, wait_until)
    with open_daemon(home) as daemon:
        wait_until(lambda: all(entry.state.is_over for entry in daemon.runs()), "the end of all runs", 120)
        states = Counter(entry.state for entry in daemon.runs())
        ids = [entry.id for entry in daemon.runs()]
    started = Counter(lines(starts))
    lost = set(lines(acknowledged)) - set(ids)
    doubled = [run_id for run_id, count in started.items() if count > 1]
    found = {"kills": kills, "accepted": len(lines(acknowledged)), "lost": len(lost), "doubled": len(doubled)}
    for name, count in found.items():
        figure(name, count)
    assert len(lines(acknowledged)) >= kills
    assert (lost, doubled) == (set(), [])
    assert states == {RunState.FINISHED: len(ids)}
    assert set(started) == set(ids)
    leftovers = [path.name for path in home.iterdir() if path.name.startswith((".new", ".trash", ".tmp"))]
    with open_daemon(home) as daemon:
        daemon.wait(daemon.submit(script("pass")).id, 30)  # the next submit sweeps what a killed one left half made
    assert [name for name in leftovers if (home / name).exists()] == []


@pytest.mark.fault("G2")
def test_a_killed_worker_is_noticed_within_two_seconds_with_cause_and_last_lines(serve, wait_until, figure, quickest):
    daemon = serve(tick_seconds=0.25)

    def seconds_until_noticed():
        entry = daemon.submit(script("import time; print('working', flush=True); time.sleep(1000)"))
        output = daemon.directory(entry.id).output_file()
        wait_until(lambda: output.exists() and output.read_text(), "its first words")
        before = time.monotonic()
        os.kill(read_monitor_record(daemon.directory(entry.id)).worker.pid, signal.SIGKILL)
        done = daemon.wait(entry.id, 30)
        took = time.monotonic() - before
        assert (done.state, done.record.failure) == (RunState.FAILED, "the process was ended by SIGKILL")
        assert done.record.exit_code == 137
        ended = [one for one in read_journal(daemon.directory(entry.id).journal_file) if one.event == "worker.ended"]
        assert (ended[0].data["signal"], ended[0].data["output"]) == ("SIGKILL", ["working"])
        return took

    figure("noticed after s", took := quickest(seconds_until_noticed, 2.0))
    assert took < 2.0


@pytest.mark.fault("G8")
def test_a_killed_monitor_does_not_affect_the_worker_which_can_still_be_stopped(serve, wait_until):
    daemon = serve()
    entry = daemon.submit(script("print('on', flush=True); " + SLEEP))
    directory = daemon.directory(entry.id)
    wait_until(lambda: directory.output_file().exists() and directory.output_file().read_text(), "its first words")
    monitor_record = read_monitor_record(directory)
    os.kill(monitor_record.monitor.pid, signal.SIGKILL)
    wait_until(lambda: find_process(monitor_record.monitor.pid) is None, "the keeper's end")
    fresh = daemon.submit(script("pass"))
    daemon.wait(fresh.id, 30)  # by now the daemon has looked at all of its runs
    assert daemon.get(entry.id).state is RunState.RUNNING
    assert find_process(monitor_record.worker.pid) is not None
    daemon.stop(entry.id)
    done = daemon.wait(entry.id, 30)
    assert done.state is RunState.CANCELLED
    assert find_process(monitor_record.worker.pid) is None


@pytest.mark.fault("G1")
def test_the_next_daemon_finds_each_run_finished_running_or_lost(home, wait_until):
    with open_daemon(home) as daemon:
        ends, stays = daemon.submit(script("import time; time.sleep(0.3)")), daemon.submit(script(SLEEP))
        for entry in (ends, stays):
            wait_until(lambda entry=entry: daemon.get(entry.id).record.pid, "its process")
        monitor_records = {entry.id: read_monitor_record(daemon.directory(entry.id)) for entry in (ends, stays)}
    wait_until(lambda: find_process(monitor_records[ends.id].monitor.pid) is None, "its end")
    with open_daemon(home) as daemon:
        assert daemon.wait(ends.id, 30).state is RunState.FINISHED
        assert daemon.get(stays.id).state is RunState.RUNNING
    for process in (
        monitor_records[stays.id].monitor,
        monitor_records[stays.id].worker,
    ):  # as if the machine had stopped
        send_signal(process, signal.SIGKILL)
    wait_until(lambda: find_process(monitor_records[stays.id].worker.pid) is None, "its death")
    with open_daemon(home) as daemon:
        lost = daemon.wait(stays.id, 30)
        assert lost.state is RunState.LOST
        assert "its exit code is unknown" in lost.record.failure
        assert daemon.retry(stays.id).submission.attempt == 2
        wait_until(lambda: daemon.get(stays.id).record.pid, "its second process")


@pytest.mark.fault("G4")
def test_another_process_with_the_worker_s_pid_is_neither_adopted_nor_signalled(home, wait_until):
    """As after a reboot: the note names a living pid that belongs to somebody else."""
    with open_daemon(home) as daemon:
        entry = daemon.submit(script(SLEEP))
        directory = daemon.directory(entry.id)
        monitor_record = wait_until(
            lambda: (found := read_monitor_record(directory)) and found.worker and found, "its worker"
        )
    for process in (monitor_record.monitor, monitor_record.worker):
        send_signal(process, signal.SIGKILL)
    wait_until(lambda: find_process(monitor_record.worker.pid) is None, "its death")
    wait_until(
        lambda: seconds_since_boot() > monitor_record.worker.started_at + 0.02, "a tick that is not the worker's own"
    )
    stranger = subprocess.Popen([sys.executable, "-S", "-c", SLEEP])
    try:
        text = directory.monitor_file.read_text()
        for pid in (monitor_record.monitor.pid, monitor_record.worker.pid):
            text = text.replace(f'"pid": {pid}', f'"pid": {stranger.pid}')
        directory.monitor_file.write_text(text)
        with open_daemon(home) as daemon:
            assert daemon.wait(entry.id, 30).state is RunState.LOST
            daemon.stop(entry.id, grace_seconds=0)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.fault("G1", "G5")
def test_a_stop_continues_when_the_daemon_dies(home, wait_until):
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)"
    with open_daemon(home, grace_seconds=0.5) as daemon:
        entry = daemon.submit(script(code))
        directory = daemon.directory(entry.id)
        wait_until(lambda: directory.output_file().exists() and directory.output_file().read_text(), "its words")
        daemon.stop(entry.id)
    wait_until(lambda: not find_members(entry.id, None), "its end without any daemon")
    with open_daemon(home) as daemon:
        done = daemon.wait(entry.id, 30)
        assert (done.state, done.record.failure) == (
            RunState.CANCELLED,
            "killed, because it did not stop within the grace period",
        )


@pytest.mark.fault("G9")
def test_a_second_daemon_is_refused_with_the_pid_of_the_first(home, tmp_path):
    served = Served(home, tmp_path / "a", tmp_path / "s")
    try:
        served.wait_until_ready()
        other = subprocess.run(
            [sys.executable, str(PROGRAM), str(home), str(tmp_path / "a"), str(tmp_path / "s")],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert other.returncode != 0
        assert f"A daemon already serves {home} (process {served.process.pid})" in other.stderr
    finally:
        served.kill()
