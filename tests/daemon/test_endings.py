"""Scripts that do not want to end, and scripts that print too much."""

import time
from pathlib import Path

import psutil
import pytest
from daemon_scripts import script

from palaestra.core.run import RunState
from palaestra.daemon.monitor_handle import read_monitor_record
from palaestra.daemon.process_tree import find_members
from palaestra.daemon.run_entry import SubmissionOptions

GRACE_SECONDS = 0.5
DEAF = "import os, signal, sys, time\nfor number in (1, 2, 3, 10, 12, 15): signal.signal(number, signal.SIG_IGN)\n"
WAIT = "print('ready', flush=True)\ntime.sleep(1000)\n"
ESCAPES = {
    "ignores SIGTERM": DEAF + WAIT,
    "forks": DEAF + "os.fork()\nos.fork()\n" + WAIT,
    "forks twice and leaves its session": DEAF
    + "if os.fork() == 0:\n    os.setsid()\n    if os.fork():\n        os._exit(0)\n    time.sleep(1000)\n"
    + WAIT,
    "clears its environment": DEAF
    + "if os.fork() == 0:\n    os.setsid()\n    os.execve(sys.executable, [sys.executable, '-S', '-c', "
    + "'import time; time.sleep(1000)'], {})\n"
    + WAIT,
    "stops itself": DEAF + "print('ready', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)\n",
    "has a child that prints": DEAF + "if os.fork() == 0:\n    while True: os.write(1, b'x' * 65536)\n" + WAIT,
}


def is_ready(daemon, entry):
    path = daemon.directory(entry.id).output_file()
    return path.exists() and path.stat().st_size > 0


@pytest.mark.fault("G5", "G6")
@pytest.mark.parametrize("way", ESCAPES)
def test_a_worker_that_ignores_sigterm_is_killed_within_two_seconds_of_its_grace(
    serve, wait_until, way, figure, quickest
):
    daemon = serve(grace_seconds=GRACE_SECONDS, log_bytes=1 << 20)

    def seconds_beyond_the_grace():
        entry = daemon.submit(script(ESCAPES[way]))
        wait_until(lambda: is_ready(daemon, entry), "its first words")
        monitor = read_monitor_record(daemon.directory(entry.id)).monitor
        members = find_members(entry.id, monitor.pid)
        assert members
        before = time.monotonic()
        daemon.stop(entry.id)
        assert daemon.wait(entry.id, 30).state is RunState.CANCELLED
        took = time.monotonic() - before
        assert [process.pid for process in members if psutil.pid_exists(process.pid)] == []
        assert find_members(entry.id, None) == []
        return took - GRACE_SECONDS

    figure("s beyond the grace", beyond := quickest(seconds_beyond_the_grace, 2.0))
    assert beyond < 2.0


def test_a_second_stop_kills_at_once(serve, wait_until, quickest):
    daemon = serve(grace_seconds=1000.0)

    def seconds_until_it_ends():
        entry = daemon.submit(script(DEAF + WAIT))
        wait_until(lambda: is_ready(daemon, entry), "its first words")
        daemon.stop(entry.id)
        before = time.monotonic()
        daemon.stop(entry.id)
        assert daemon.wait(entry.id, 30).state is RunState.CANCELLED
        return time.monotonic() - before

    assert quickest(seconds_until_it_ends, 2.0) < 2.0


@pytest.mark.fault("G3")
def test_a_run_out_of_memory_fails_and_others_continue(serve):
    daemon = serve()
    other = daemon.submit(script("import time; time.sleep(1); print('unharmed')"))
    greedy = daemon.submit(
        script("block = b'x' * (200 << 20); import time; time.sleep(1000)"), SubmissionOptions(memory_mb=100)
    )
    done = daemon.wait(greedy.id, 30)
    assert done.state is RunState.FAILED
    assert done.record.failure.startswith("out of memory: ")
    assert done.record.failure.endswith("100 MB allowed")
    assert daemon.wait(other.id, 30).state is RunState.FINISHED


PRINTS = {
    "many lines": "line = b'y' * 99 + b'\\n'\nblock = line * 10_000\nfor _ in range({blocks}): write(block)\n",
    "one line": "block = b'z' * 1_000_000\nfor _ in range({blocks}): write(block)\n",
    "binary": "import os\nblock = bytes(range(256)) * 3907\nfor _ in range({blocks}): write(block)\n",
}


@pytest.mark.fault("G7")
@pytest.mark.parametrize("what", PRINTS)
@pytest.mark.parametrize("megabytes", [100, pytest.param(1000, marks=pytest.mark.chaos)])
def test_a_flood_of_output_grows_neither_the_log_nor_the_daemon(serve, what, megabytes, figure):
    limit = 4 << 20
    daemon = serve(log_bytes=limit)
    daemon.wait(daemon.submit(script("pass")).id, 30)
    process = psutil.Process()
    before, disk_peak = process.memory_info().rss, 0
    code = "import os\nwrite = lambda block: os.write(1, block)\n" + PRINTS[what].format(blocks=megabytes)
    began = time.monotonic()
    entry = daemon.submit(script(code))
    while not daemon.wait(entry.id, 0.05).state.is_over:
        disk_peak = max(disk_peak, sum(path.stat().st_size for path in daemon.directory(entry.id).logs.glob("out*")))
    took = time.monotonic() - began
    monitored_run = sum(path.stat().st_size for path in daemon.directory(entry.id).logs.glob("output*"))
    grown = process.memory_info().rss - before
    for name, value in {
        "MB printed": megabytes,
        "in s": took,
        "MB kept": monitored_run >> 20,
        "MB of disk": disk_peak >> 20,
    }.items():
        figure(name, value)
    figure("KB the daemon grew", grown >> 10)
    assert daemon.get(entry.id).state is RunState.FINISHED
    assert monitored_run <= 2 * limit + (1 << 20)
    assert grown < 8 << 20
    assert read_monitor_record(daemon.directory(entry.id)).dropped_bytes > megabytes * 300_000


@pytest.mark.fault("G7")
def test_the_last_lines_after_a_flood_are_in_the_journal(serve):
    """It takes a breath before them: what is printed in the very instant of a cut can be lost."""
    daemon = serve(log_bytes=4 << 20)
    flood = "import os, time\nfor _ in range(50): os.write(1, b'x' * 1_000_000)\ntime.sleep(0.5)\n"
    entry = daemon.submit(script(flood + "raise SystemExit('it broke')"))
    assert daemon.wait(entry.id, 30).record.failure.endswith("it broke")


@pytest.mark.fault("G17")
@pytest.mark.parametrize("count", [10, pytest.param(200, marks=[pytest.mark.chaos, pytest.mark.slow])])
def test_starting_and_stopping_leaves_nothing_behind(serve, home, wait_until, count, figure):
    daemon = serve()

    def once(number):
        entry = daemon.submit(script("import os, time\nos.fork()\nprint('ready', flush=True)\ntime.sleep(1000)"))
        wait_until(lambda: is_ready(daemon, entry), "its first words")
        daemon.stop(entry.id, grace_seconds=0 if number % 2 else None)
        daemon.wait(entry.id, 30)
        return entry.id

    once(0)
    process = psutil.Process()
    zombies_before = {child.pid for child in process.children()}
    descriptors, memory = process.num_fds(), process.memory_info().rss
    ids = [once(number) for number in range(count)]
    wait_until(lambda: process.num_fds() <= descriptors, "descriptors to be given back")
    zombies = [child.pid for child in process.children() if child.status() == psutil.STATUS_ZOMBIE]
    assert set(zombies) - zombies_before == set()
    assert [run_id for run_id in ids if find_members(run_id, None)] == []
    shared = [path.name for path in Path("/dev/shm").iterdir()]
    assert [name for name in shared if any(run_id in name for run_id in ids)] == []
    assert list(home.rglob(".tmp-*")) == []
    assert process.memory_info().rss - memory < (4 << 20) + count * 20_000
    figure("started and stopped", count)
    figure("descriptors more", process.num_fds() - descriptors)
    figure("KB the daemon grew", (process.memory_info().rss - memory) >> 10)
