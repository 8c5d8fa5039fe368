"""The daemon's Python calls over real, small processes."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from daemon_scripts import ScriptKind, open_daemon, script, settings

from palaestra.core.errors import NotFound
from palaestra.core.run import RunRequest, RunState
from palaestra.core.worker_kind import Prepared, RequestRefused, Resources
from palaestra.daemon.errors import Conflict, QueueFull, StoreRefused
from palaestra.daemon.index import Index
from palaestra.daemon.run_entry import SubmissionOptions, read_submission
from palaestra.daemon.service import Daemon
from palaestra.runs.documents import read_config, read_request
from palaestra.runs.identity import RunNames
from palaestra.runs.journal import read_journal
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

SLEEP = "import time; time.sleep(1000)"


def events_of(directory):
    return [entry.event for entry in read_journal(directory.journal_file)]


def test_a_submitted_script_runs_to_its_end_and_every_file_says_so(serve, home):
    daemon = serve()
    entry = daemon.submit(script("print('hello')", name="first", submitted_by="web:ada", command="palaestra submit"))
    assert entry.state is RunState.QUEUED
    done = daemon.wait(entry.id, 30)
    directory = daemon.directory("first")
    assert (done.state, done.record.exit_code) == (RunState.FINISHED, 0)
    assert read_record(directory).state is RunState.FINISHED
    assert directory.output_file().read_text() == "hello\n"
    assert read_request(directory).submitted_by == "web:ada"
    assert events_of(directory)[:3] == ["run.created", "run.queued", "worker.started"]
    assert events_of(directory)[-2:] == ["worker.ended", "run.finished"]


def test_a_failed_script_is_reported_with_exit_code_and_last_line(serve):
    daemon = serve()
    entry = daemon.submit(script("import sys; print('before', flush=True); sys.exit('it broke')"))
    done = daemon.wait(entry.id, 30)
    assert done.state is RunState.FAILED
    assert done.record.failure == "the process ended with exit code 1: it broke"
    ended = [one for one in read_journal(daemon.directory(entry.id).journal_file) if one.event == "worker.ended"]
    assert ended[0].data["output"] == ["before", "it broke"]


def test_a_missing_program_fails_with_its_name(home):
    class Broken:
        name = "broken"

        def prepare(self, request, machine, runs_root):
            return Prepared(request, {}, Resources(1))

        def command(self, run_directory):
            return ["/no/such/program"]

    with Daemon(home, settings(), {"broken": Broken()}) as daemon:
        done = daemon.wait(daemon.submit(RunRequest("broken", "", {})).id, 30)
    assert done.state is RunState.FAILED
    assert "cannot start /no/such/program" in done.record.failure


def test_all_errors_of_a_request_are_reported_and_nothing_is_created(serve, home):
    daemon = serve()
    wrong = RunRequest("script", "", {"kode": 1, "cod": 2}, name="../up", executor="rey", nproc=0)
    with pytest.raises(RequestRefused) as refused:
        daemon.submit(wrong, SubmissionOptions(priority=10**6))
    assert [one.key for one in refused.value.field_errors] == ["name", "executor", "nproc", "priority", "cod", "kode"]
    assert daemon.runs() == []
    assert [path.name for path in home.iterdir()] == [".palaestra"]


def test_a_request_beyond_the_machine_is_refused_not_queued(serve):
    with pytest.raises(RequestRefused, match="needs 3 CPUs.*the daemon has 2"):
        serve().submit(script("", nproc=3))


def test_equal_requests_become_two_runs(serve):
    daemon = serve()
    one, other = (daemon.submit(script("pass")) for _ in range(2))
    assert one.id != other.id
    assert [daemon.wait(entry.id, 30).state for entry in (one, other)] == [RunState.FINISHED] * 2


def test_a_taken_name_is_refused(serve):
    daemon = serve()
    daemon.submit(script("pass", name="mine"))
    with pytest.raises(RequestRefused, match="A run named 'mine' exists already"):
        daemon.submit(script("pass", name="mine"))


def test_slots_limit_running_runs_and_the_order_is_priority_then_acceptance(serve, wait_until):
    daemon = serve()
    wide = daemon.submit(script(SLEEP, nproc=2))
    wait_until(lambda: daemon.get(wide.id).state is RunState.RUNNING, "the first to start")
    late, later, urgent = (
        daemon.submit(script("pass", nproc=2), SubmissionOptions(priority=priority)) for priority in (0, 0, 5)
    )
    assert [entry.id for entry in daemon.waiting()] == [urgent.id, late.id, later.id]
    assert (daemon.slots().used.cpus, daemon.slots().running, daemon.slots().waiting) == (2, 1, 3)
    daemon.stop(wide.id)
    for entry in (late, later, urgent):
        daemon.wait(entry.id, 30)
    started = [event.run for event in daemon.events.since(0) if event.change == "started"]
    assert started == [wide.id, urgent.id, late.id, later.id]
    assert daemon.slots().used.cpus == 0


def test_the_priority_of_a_queued_run_can_be_changed(serve, wait_until):
    daemon = serve()
    wide = daemon.submit(script(SLEEP, nproc=2))
    wait_until(lambda: daemon.get(wide.id).state is RunState.RUNNING, "the first to start")
    early, late = (daemon.submit(script("pass", nproc=2)) for _ in range(2))
    assert daemon.prioritise(late.id, 3).submission.options.priority == 3
    assert [entry.id for entry in daemon.waiting()] == [late.id, early.id]
    assert read_submission(daemon.directory(late.id)).options.priority == 3, "it must outlive the daemon"
    with pytest.raises(Conflict, match="is running"):
        daemon.prioritise(wide.id, 3)


def test_each_run_gets_its_own_gpus(serve):
    daemon = serve()
    code = "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); time.sleep(0.2)"
    request = RunRequest("script", "", {"code": code, "gpus": 1})
    entries = [daemon.submit(request) for _ in range(2)]
    for entry in entries:
        daemon.wait(entry.id, 30)
    refresh_external = {daemon.directory(entry.id).output_file().read_text().strip() for entry in entries}
    assert refresh_external == {"0", "1"}


def test_a_full_queue_refuses_new_requests(serve, wait_until):
    daemon = serve(queue_limit=2)
    busy = daemon.submit(script(SLEEP, nproc=2))
    wait_until(lambda: daemon.get(busy.id).state is RunState.RUNNING, "its start")
    waiting = [daemon.submit(script("pass")) for _ in range(2)]
    with pytest.raises(QueueFull, match=r"queue is full \(2 runs\)"):
        daemon.submit(script("pass"))
    assert [entry.id for entry in daemon.waiting()] == [entry.id for entry in waiting]
    daemon.cancel(waiting[0].id)
    assert daemon.submit(script("pass")).state is RunState.QUEUED


def test_a_queued_run_is_cancelled_at_once_and_never_starts(serve):
    daemon = serve()
    busy = daemon.submit(script(SLEEP, nproc=2))
    waiting = daemon.submit(script("print('never')"))
    assert daemon.cancel(waiting.id).state is RunState.CANCELLED
    daemon.stop(busy.id)
    daemon.wait(busy.id, 30)
    assert not daemon.directory(waiting.id).output_file().exists()
    with pytest.raises(Conflict, match="already cancelled"):
        daemon.cancel(waiting.id)


def test_a_stopped_run_is_cancelled_and_can_be_retried_in_its_own_directory(serve, wait_until):
    daemon = serve()
    entry = daemon.submit(script("import os, time; print(os.getpid(), flush=True); time.sleep(1000)", name="again"))
    output = daemon.directory(entry.id).output_file()
    wait_until(lambda: output.exists() and output.read_text(), "its first words")
    assert daemon.stop("again").state is RunState.STOPPING
    stopped = daemon.wait("again", 30)
    assert (stopped.state, stopped.record.exit_code, stopped.record.failure) == (RunState.CANCELLED, 143, "")
    retried = daemon.retry("again")
    assert (retried.id, retried.submission.attempt, retried.state) == (entry.id, 2, RunState.QUEUED)
    assert retried.submission.sequence > entry.submission.sequence
    wait_until(lambda: len(output.read_text().split()) == 2, "a second process")
    daemon.stop("again", grace_seconds=0)
    daemon.wait("again", 30)


def test_running_queued_and_finished_runs_are_not_retried(serve, wait_until):
    daemon = serve()
    running = daemon.submit(script(SLEEP))
    done = daemon.submit(script("pass"))
    daemon.wait(done.id, 30)
    with pytest.raises(Conflict, match="Only a run that is over"):
        daemon.retry(running.id)
    with pytest.raises(Conflict, match="finished"):
        daemon.retry(done.id)


def test_a_clone_is_a_new_run_of_the_same_request_with_changes(serve):
    daemon = serve()
    first = daemon.submit(script("print(1)", name="one"), SubmissionOptions(priority=7))
    copy = daemon.clone("one", name="two")
    other = daemon.clone("one", changes={"code": "print(2)"})
    assert read_config(daemon.directory("two")) == read_config(daemon.directory("one"))
    assert copy.submission.options.priority == 7
    assert len({first.id, copy.id, other.id}) == 3
    daemon.wait(other.id, 30)
    assert daemon.directory(other.id).output_file().read_text() == "2\n"


def test_rerun_latest_submits_the_last_request(serve):
    daemon = serve()
    with pytest.raises(Conflict, match="No request has been submitted"):
        daemon.rerun_latest()
    daemon.submit(script("print('a')"))
    daemon.submit(script("print('b')"))
    rerun_latest = daemon.rerun_latest(submitted_by="web:ada")
    assert read_request(daemon.directory(rerun_latest.id)).config == {"code": "print('b')"}
    assert read_request(daemon.directory(rerun_latest.id)).submitted_by == "web:ada"


def test_a_running_or_queued_run_is_never_removed(serve, wait_until):
    daemon = serve()
    running = daemon.submit(script(SLEEP, nproc=2))
    wait_until(lambda: daemon.get(running.id).state is RunState.RUNNING, "its start")
    waiting = daemon.submit(script("pass"))
    for entry in (running, waiting):
        with pytest.raises(Conflict, match="is (running|queued)"):
            daemon.remove(entry.id)
    daemon.cancel(waiting.id)
    daemon.remove(waiting.id)
    with pytest.raises(NotFound):
        daemon.get(waiting.id)
    assert daemon.get(running.id).state is RunState.RUNNING


def test_events_follow_the_life_of_a_run_in_order(serve):
    daemon = serve()
    received = []
    unsubscribe = daemon.events.subscribe(received.append)
    entry = daemon.submit(script("pass"))
    daemon.wait(entry.id, 30)
    unsubscribe()
    daemon.remove(entry.id)
    happened = [event.change for event in received if event.run == entry.id]
    assert (happened[0], happened[1], happened[-1]) == ("accepted", "started", "ended")
    assert [event.change for event in daemon.events.since(received[-1].sequence)] == ["removed"]


def test_external_runs_are_listed_and_updated(serve, home, wait_until):
    daemon = serve()
    store = RunStore(home)
    directory = store.create(RunRequest("native", "cartpole", {}), {}, "by-hand")
    entry = wait_until(lambda: next(iter(daemon.runs()), None), "the run of somebody else")
    assert (entry.record.name, entry.submission) == ("by-hand", None)
    assert daemon.waiting() == []  # it is not ours to start
    store.remove(directory.id)
    wait_until(lambda: not daemon.runs(), "its removal")


def test_a_selector_is_a_name_a_prefix_or_latest_but_never_a_path(serve, home):
    daemon = serve()
    one = daemon.submit(script("pass", name="one"))
    two = daemon.submit(script("pass", name="two"))
    assert daemon.get("latest").id == two.id
    assert daemon.get(one.id.lower()).id == one.id
    for bad in ("", "onne", "../" + one.id, str(home / one.id), "0"):
        with pytest.raises(NotFound):
            daemon.get(bad)


def test_submissions_of_many_threads_are_accepted_once_in_one_order(serve):
    daemon = serve()
    accepted = []
    threads = [threading.Thread(target=lambda: accepted.append(daemon.submit(script("pass")))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({entry.id for entry in accepted}) == 12
    assert sorted(entry.submission.sequence for entry in accepted) == list(range(1, 13))


def test_a_nickname_taken_at_the_same_instant_is_generated_again(serve, home, monkeypatch):
    daemon = serve()
    real, answers = RunNames.claim, [False, False]
    monkeypatch.setattr(
        RunNames, "claim", lambda self, name, run_id: answers.pop() if answers else real(self, name, run_id)
    )
    entry = daemon.submit(script("pass"))
    assert [one.id for one in daemon.runs()] == [entry.id]
    assert {path.name for path in home.iterdir() if len(path.name) == 26} == {entry.id}


@pytest.mark.fault("G16")
@pytest.mark.slow
def test_two_hundred_concurrent_submissions_are_accepted_in_order(serve, figure):
    daemon = serve(tick_seconds=5.0)
    daemon.submit(script(SLEEP, nproc=2))
    lock, accepted = threading.Lock(), []

    def submit_some():
        for _ in range(25):
            entry = daemon.submit(script("pass", nproc=2))
            with lock:
                accepted.append(entry)

    threads = [threading.Thread(target=submit_some) for _ in range(8)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figure("200 submits in s", time.monotonic() - began)
    waiting = daemon.waiting()
    assert {entry.id for entry in accepted} == {entry.id for entry in waiting}
    assert [entry.submission.sequence for entry in waiting] == list(range(2, 202))


class JumpingClock:
    """Each look at the wall clock is a day earlier than the one before."""

    def __init__(self):
        self._now = time.time()

    def now(self):
        self._now -= 86_400.0
        return self._now

    def monotonic(self):
        return time.monotonic()


@pytest.mark.fault("G14")
def test_a_clock_that_jumps_back_changes_neither_order_nor_outcome(home):
    with Daemon(home, settings(), {"script": ScriptKind()}, JumpingClock()) as daemon:
        busy = daemon.submit(script(SLEEP, nproc=2))
        later = [daemon.submit(script("pass")) for _ in range(3)]
        assert [entry.id for entry in daemon.waiting()][-3:] == [entry.id for entry in later]
        assert sorted(entry.id for entry in later) == [entry.id for entry in later]
        daemon.stop(busy.id)
        assert {daemon.wait(entry.id, 30).state for entry in later} == {RunState.FINISHED}


def test_a_full_index_refuses_the_request_and_leaves_no_directory(serve, home, monkeypatch, wait_until):
    opened = []
    real = Index.__init__
    monkeypatch.setattr(Index, "__init__", lambda self, path: (real(self, path), opened.append(self))[0])
    daemon = serve()
    running = daemon.submit(script("import time; time.sleep(0.5); print('unharmed')"))
    opened[0].limit_pages(1)
    big = RunRequest("script", "", {"code": "pass"}, command="x" * 20_000)
    with pytest.raises(StoreRefused, match="database or disk is full"):
        for _ in range(10):
            daemon.submit(big)
    known = {entry.id for entry in daemon.runs()}
    assert {path.name for path in home.iterdir() if len(path.name) == 26} == known
    assert daemon.wait(running.id, 30).state is RunState.FINISHED
    assert daemon.directory(running.id).output_file().read_text() == "unharmed\n"
    opened[0].limit_pages(10_000)
    assert daemon.wait(daemon.submit(script("pass")).id, 30).state is RunState.FINISHED


def test_workers_continue_after_the_block_and_the_next_daemon_adopts_them(home, wait_until):
    with open_daemon(home) as daemon:
        entry = daemon.submit(script("import time\nfor _ in range(40): time.sleep(0.05)\nprint('whole')"))
        wait_until(lambda: daemon.get(entry.id).record.pid, "its process")
        pid = daemon.get(entry.id).record.pid
    os.kill(pid, 0)
    with open_daemon(home) as daemon:
        assert daemon.get(entry.id).state is RunState.RUNNING
        assert daemon.slots().used.cpus == 1
        assert daemon.wait(entry.id, 30).state is RunState.FINISHED
        assert daemon.directory(entry.id).output_file().read_text() == "whole\n"


def test_a_daemon_never_imports_torch(home):
    code = (
        "import sys; from palaestra.daemon.service import Daemon\n"
        "from palaestra.daemon.settings import DaemonSettings\n"
        "from palaestra.core.run import RunRequest\n"
        "from palaestra.config.recipes.registry import recipe_names\n"
        "from palaestra.core.worker_kind import RequestRefused, Resources\n"
        "from pathlib import Path\n"
        f"with Daemon(Path({str(home)!r}), DaemonSettings(Resources(0, 0, 0))) as daemon:\n"
        "    for name in daemon.kinds.names(): daemon.kinds.get(name).schema()\n"
        "    for name in recipe_names():\n"
        "        try: daemon.check(RunRequest('native', name, {}))\n"
        "        except RequestRefused: pass\n"
        "    try: daemon.check(RunRequest('evaluate', '', {'target': 'x'}))\n"
        "    except RequestRefused: pass\n"
        "print([name for name in ('torch', 'gymnasium', 'safetensors', 'ray') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


@pytest.mark.fault("G16")
def test_ten_thousand_queued_runs_are_listed_quickly(serve, monkeypatch):
    """The directories are not made: listing must not need them."""
    daemon = serve(scan_seconds=1e9)
    busy = daemon.submit(script(SLEEP, nproc=2), SubmissionOptions(priority=1))
    model = daemon.submit(script("pass", nproc=2))
    for number in range(10_000):
        run_id = f"01M7H5H1TJ9XS3KR3P{number:08d}"
        record = replace(model.record, id=run_id, name=f"n{number}")
        submission = replace(model.submission, sequence=1000 + number)
        daemon._run_table._entries[run_id] = replace(model, record=record, submission=submission)
    took = []
    for _ in range(3):
        before = time.thread_time()  # whoever else is at work
        assert len(daemon.runs()) == 10_002
        took.append(time.thread_time() - before)
    assert min(took) < 0.1
    assert daemon.waiting()[1].submission.sequence == 1000
    assert daemon.get(busy.id).submission.sequence == 1
