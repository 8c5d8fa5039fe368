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
from palaestra.daemon.keeper import Charge
from palaestra.daemon.keeping import is_kept, read_note, start_keeper
from palaestra.daemon.tree import RUN_ID_VARIABLE, find_members, find_process, send
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


class Kept:
    def __init__(self, home, code, **changes):
        self.directory = RunStore(home).create(RunRequest("script", "", {}), {})
        directory = self.directory
        charge = Charge(
            run=directory.id,
            attempt=1,
            argv=[sys.executable, "-S", "-c", code],
            environment={},
            keeper_file=str(directory.keeper_file),
            status_file=str(directory.status_file),
            output_file=str(directory.output_file()),
            earlier_output_file=str(directory.earlier_output_file()),
            log_bytes=1 << 20,
            grace_seconds=5.0,
            memory_mb=0,
            gpus=[],
            lock=-1,
        )
        self.charge = Charge(**{**asdict(charge), **changes})
        self.pid = start_keeper(directory, self.charge)
        self.keeper = find_process(self.pid)

    def output(self):
        path = self.directory.output_file()
        return path.read_text() if path.exists() else ""

    def end(self):
        os.waitpid(self.pid, 0)
        return read_note(self.directory)

    def members(self):
        return find_members(self.directory.id, self.pid)


@pytest.fixture
def keep(home):
    home.mkdir(parents=True)
    kept = []

    def start(code, **changes):
        kept.append(Kept(home, code, **changes))
        return kept[-1]

    yield start
    for one in kept:
        try:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


@pytest.mark.parametrize(
    ("code", "expected"), [("pass", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 11)", -11)]
)
def test_how_a_worker_ended_stands_in_the_note(keep, code, expected):
    note = keep(code).end()
    assert (note.has_ended, note.exit_code, note.is_stopping, note.is_out_of_memory) == (True, expected, False, False)


def test_the_worker_has_the_run_s_id_a_session_of_its_own_and_no_input(keep):
    one = keep(
        "import os, sys; print(os.environ['PALAESTRA_RUN_ID'], os.getsid(0) == os.getpid(), sys.stdin.read() == '')"
    )
    one.end()
    assert one.output().split() == [one.directory.id, "True", "True"]


def test_the_status_says_running_before_the_worker_runs(keep, home):
    code = (
        "import json, os, pathlib\n"
        "run = pathlib.Path(os.environ['RUNS']) / os.environ['PALAESTRA_RUN_ID']\n"
        "status = json.loads((run / 'status.json').read_text())\n"
        "print(status['state'], status['pid'] == os.getpid())\n"
    )
    one = keep(code, environment={"RUNS": str(home)})
    one.end()
    assert one.output() == "running True\n"
    assert read_written_record(one.directory).pid == read_note(one.directory).worker.pid


def test_the_lock_is_held_from_before_its_start_to_its_end_and_not_by_the_worker(keep, wait_until):
    one = keep("print('on', flush=True); " + SLEEP)
    assert is_kept(one.directory)
    wait_until(one.output, "its first words")
    note = read_note(one.directory)
    assert is_kept(one.directory)
    send(one.keeper, signal.SIGKILL)
    os.waitpid(one.pid, 0)
    assert not is_kept(one.directory)
    assert find_process(note.worker.pid) is not None  # unharmed
    send(note.worker, signal.SIGKILL)


def test_a_gentle_stop_reaches_the_worker(keep, wait_until):
    one = keep(
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(143))\n"
        "print('on', flush=True); time.sleep(1000)"
    )
    wait_until(one.output, "its first words")
    send(one.keeper, signal.SIGTERM)
    note = one.end()
    assert (note.exit_code, note.is_stopping) == (143, True)


def test_a_stop_before_the_keeper_listens_is_not_lost(keep):
    one = keep(SLEEP)
    send(one.keeper, signal.SIGTERM)
    note = one.end()
    assert (note.exit_code, note.is_stopping) == (-signal.SIGTERM, True)


@pytest.mark.fault("G5")
def test_who_ignores_the_stop_is_killed_after_the_grace(keep, wait_until, quickest):
    def seconds_until_killed():
        one = keep(STUBBORN, grace_seconds=0.5)
        wait_until(one.output, "its first words")
        before = time.monotonic()
        send(one.keeper, signal.SIGTERM)
        note = one.end()
        assert note.exit_code == -signal.SIGKILL
        return time.monotonic() - before

    assert 0.5 <= quickest(seconds_until_killed, 2.5) < 2.5


def test_no_grace_is_given_when_none_is_wanted(keep, wait_until):
    one = keep(STUBBORN, grace_seconds=1000.0)
    wait_until(one.output, "its first words")
    send(one.keeper, signal.SIGUSR1)
    assert one.end().exit_code == -signal.SIGKILL


@pytest.mark.fault("G6")
def test_a_child_that_hid_from_its_parent_its_session_and_its_name_is_found(keep, wait_until):
    one = keep(HIDES, grace_seconds=0.2)
    hidden = int(wait_until(one.output, "the hidden one"))
    assert RUN_ID_VARIABLE not in Path(f"/proc/{hidden}/environ").read_text()
    assert hidden in {process.pid for process in one.members()}
    send(one.keeper, signal.SIGTERM)
    one.end()
    assert find_process(hidden) is None


def test_what_a_worker_leaves_behind_is_ended_with_it(keep, wait_until):
    one = keep("import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(1000)\nprint('left')")
    note = one.end()
    assert note.exit_code == 0
    assert one.members() == []


@pytest.mark.fault("G3")
def test_too_much_memory_ends_the_tree_and_is_named(keep):
    grabs = "import time; block = b'x' * (200 << 20); time.sleep(1000)"
    note = keep(grabs, memory_mb=100).end()
    assert (note.is_out_of_memory, note.exit_code) == (True, -signal.SIGKILL)
    assert note.used_mb > 100


def test_the_log_is_kept_short_while_the_worker_writes(keep):
    limit = 256 << 10
    one = keep("import sys\nfor _ in range(200): sys.stdout.buffer.write(b'x' * 100_000 + b'\\n')", log_bytes=limit)
    note = one.end()
    kept = [path.stat().st_size for path in one.directory.logs.glob("output*")]
    assert note.exit_code == 0
    assert sum(kept) < 3 * limit
    assert note.dropped_bytes > 10_000_000


def test_it_needs_nothing_but_the_standard_library():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import palaestra.daemon.keeper\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('pydantic', 'psutil', 'numpy', 'ruamel')])"
    )
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, source], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_a_removed_run_does_not_keep_it(keep, wait_until):
    one = keep("import time; time.sleep(0.3)")
    wait_until(lambda: (found := read_note(one.directory)) and found.worker, "the worker")
    one.directory.path.rename(one.directory.path.with_name("gone"))
    wait_until(lambda: os.waitpid(one.pid, os.WNOHANG)[0], "its end")


def test_a_charge_is_plain_data(keep):
    one = keep("pass")
    assert Charge(**json.loads(json.dumps(asdict(one.charge)))) == one.charge
    one.end()
