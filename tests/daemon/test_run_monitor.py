"""A keeper as its own process, without any daemon."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from palaestra.core.run import RunRequest
from palaestra.daemon.monitor_handle import is_monitored, read_monitor_record, start_monitor
from palaestra.daemon.process_tree import RUN_ID_VARIABLE, find_members, find_process, send_signal
from palaestra.daemon.run_monitor import MonitorSettings
from palaestra.runs.status import read_written_record
from palaestra.runs.store import RunStore

SLEEP = "import time; time.sleep(1000)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)"
)
HIDES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    code = 'import os, time; print(os.getpid(), flush=True); time.sleep(1000)'
    os.execve(sys.executable, [sys.executable, '-S', '-c', code], {})
time.sleep(1000)
"""


class MonitoredRun:
    def __init__(self, home, code, **changes):
        self.directory = RunStore(home).create(RunRequest("script", "", {}), {})
        directory = self.directory
        settings = MonitorSettings(
            run=directory.id,
            attempt=1,
            argv=[sys.executable, "-S", "-c", code],
            environment={},
            monitor_file=str(directory.monitor_file),
            status_file=str(directory.status_file),
            output_file=str(directory.output_file()),
            earlier_output_file=str(directory.earlier_output_file()),
            log_bytes=1 << 20,
            grace_seconds=5.0,
            memory_mb=0,
            gpus=[],
            lock=-1,
        )
        self.settings = MonitorSettings(**{**asdict(settings), **changes})
        self.pid = start_monitor(directory, self.settings)
        self.monitor = find_process(self.pid)

    def output(self):
        path = self.directory.output_file()
        return path.read_text() if path.exists() else ""

    def end(self):
        os.waitpid(self.pid, 0)
        return read_monitor_record(self.directory)

    def members(self):
        return find_members(self.directory.id, self.pid)


@pytest.fixture
def run(home):
    home.mkdir(parents=True)
    monitored_run = []

    def start(code, **changes):
        monitored_run.append(MonitoredRun(home, code, **changes))
        return monitored_run[-1]

    yield start
    for one in monitored_run:
        try:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


@pytest.mark.parametrize(
    ("code", "expected"), [("pass", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 11)", -11)]
)
def test_the_record_contains_the_exit_code_of_the_worker(run, code, expected):
    monitor_record = run(code).end()
    assert (
        monitor_record.has_ended,
        monitor_record.exit_code,
        monitor_record.is_stopping,
        monitor_record.is_out_of_memory,
    ) == (True, expected, False, False)


def test_the_worker_has_the_run_id_its_own_session_and_no_input(run):
    one = run(
        "import os, sys; print(os.environ['PALAESTRA_RUN_ID'], os.getsid(0) == os.getpid(), sys.stdin.read() == '')"
    )
    one.end()
    assert one.output().split() == [one.directory.id, "True", "True"]


def test_the_status_says_running_before_the_worker_runs(run, home):
    code = (
        "import json, os, pathlib\n"
        "run = pathlib.Path(os.environ['RUNS']) / os.environ['PALAESTRA_RUN_ID']\n"
        "status = json.loads((run / 'status.json').read_text())\n"
        "print(status['state'], status['pid'] == os.getpid())\n"
    )
    one = run(code, environment={"RUNS": str(home)})
    one.end()
    assert one.output() == "running True\n"
    assert read_written_record(one.directory).pid == read_monitor_record(one.directory).worker.pid


def test_the_monitor_holds_the_lock_for_its_whole_life_and_the_worker_does_not(run, wait_until):
    one = run("print('on', flush=True); " + SLEEP)
    assert is_monitored(one.directory)
    wait_until(one.output, "its first words")
    monitor_record = read_monitor_record(one.directory)
    assert is_monitored(one.directory)
    send_signal(one.monitor, signal.SIGKILL)
    os.waitpid(one.pid, 0)
    assert not is_monitored(one.directory)
    assert find_process(monitor_record.worker.pid) is not None  # unharmed
    send_signal(monitor_record.worker, signal.SIGKILL)


def test_a_stop_sends_sigterm_to_the_worker(run, wait_until):
    one = run(
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(143))\n"
        "print('on', flush=True); time.sleep(1000)"
    )
    wait_until(one.output, "its first words")
    send_signal(one.monitor, signal.SIGTERM)
    monitor_record = one.end()
    assert (monitor_record.exit_code, monitor_record.is_stopping) == (143, True)


def test_a_stop_before_the_monitor_handles_signals_is_not_lost(run):
    one = run(SLEEP)
    send_signal(one.monitor, signal.SIGTERM)
    monitor_record = one.end()
    assert (monitor_record.exit_code, monitor_record.is_stopping) == (-signal.SIGTERM, True)


@pytest.mark.fault("G5")
def test_a_worker_that_ignores_the_stop_is_killed_after_the_grace_period(run, wait_until, quickest):
    def seconds_until_killed():
        one = run(STUBBORN, grace_seconds=0.5)
        wait_until(one.output, "its first words")
        before = time.monotonic()
        send_signal(one.monitor, signal.SIGTERM)
        monitor_record = one.end()
        assert monitor_record.exit_code == -signal.SIGKILL
        return time.monotonic() - before

    assert 0.5 <= quickest(seconds_until_killed, 2.5) < 2.5


def test_without_a_grace_period_the_worker_is_killed_at_once(run, wait_until):
    one = run(STUBBORN, grace_seconds=1000.0)
    wait_until(one.output, "its first words")
    send_signal(one.monitor, signal.SIGUSR1)
    assert one.end().exit_code == -signal.SIGKILL


@pytest.mark.fault("G6")
def test_a_detached_child_is_found(run, wait_until):
    one = run(HIDES, grace_seconds=0.2)
    hidden = int(wait_until(one.output, "the hidden one"))
    assert RUN_ID_VARIABLE not in Path(f"/proc/{hidden}/environ").read_text()
    assert hidden in {process.pid for process in one.members()}
    send_signal(one.monitor, signal.SIGTERM)
    one.end()
    assert find_process(hidden) is None


def test_processes_that_outlive_the_worker_are_killed(run, wait_until):
    one = run("import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(1000)\nprint('left')")
    monitor_record = one.end()
    assert monitor_record.exit_code == 0
    assert one.members() == []


@pytest.mark.fault("G3")
def test_too_much_memory_kills_the_tree_and_is_recorded(run):
    grabs = "import time; block = b'x' * (200 << 20); time.sleep(1000)"
    monitor_record = run(grabs, memory_mb=100).end()
    assert (monitor_record.is_out_of_memory, monitor_record.exit_code) == (True, -signal.SIGKILL)
    assert monitor_record.used_mb > 100


def test_the_log_is_truncated_while_the_worker_writes(run):
    limit = 256 << 10
    one = run("import sys\nfor _ in range(200): sys.stdout.buffer.write(b'x' * 100_000 + b'\\n')", log_bytes=limit)
    monitor_record = one.end()
    monitored_run = [path.stat().st_size for path in one.directory.logs.glob("output*")]
    assert monitor_record.exit_code == 0
    assert sum(monitored_run) < 3 * limit
    assert monitor_record.dropped_bytes > 10_000_000


def test_the_monitor_imports_only_the_standard_library():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import palaestra.daemon.run_monitor\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('pydantic', 'psutil', 'numpy', 'ruamel')])"
    )
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, source], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_the_monitor_ends_although_its_run_was_removed(run, wait_until):
    one = run("import time; time.sleep(0.3)")
    wait_until(lambda: (found := read_monitor_record(one.directory)) and found.worker, "the worker")
    one.directory.path.rename(one.directory.path.with_name("gone"))
    wait_until(lambda: os.waitpid(one.pid, os.WNOHANG)[0], "its end")


def test_monitor_settings_are_plain_data(run):
    one = run("pass")
    assert MonitorSettings(**json.loads(json.dumps(asdict(one.settings)))) == one.settings
    one.end()
