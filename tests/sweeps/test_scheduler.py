from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from palaestra.core.errors import NotFound, RunFailed
from palaestra.core.run import RunState
from palaestra.core.trials import SlotRequest, TrialRequest, TrialResult
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.sweeps import scheduler as module
from palaestra.sweeps.order import make_order, prepare_run
from palaestra.sweeps.scheduler import RESTARTS, LocalSlots, core_count, find_slots, last_line, run_trials


class TrialSource:
    def __init__(self, names, names_to_stop=()):
        self.waiting = [TrialRequest(name, "", Path()) for name in names]
        self.ends, self._unwanted = [], names_to_stop
        self.continuations = []

    def next_order(self):
        return self.waiting.pop(0) if self.waiting else None

    def on_result(self, order, end, *, was_stopped):
        self.ends.append((order.name, end.exit_code, was_stopped))
        self.lost = {**getattr(self, "lost", {}), order.name: end.is_lost}

    def on_restart(self, order, end):
        self.continuations.append(order.name)

    def names_to_stop(self):
        return self._unwanted


class Slots:
    """Ends one trial a look; those in `endless` end only when they are stopped."""

    def __init__(self, slots=2, codes=None, endless=(), on_look=lambda: None, lost=()):
        self.lost = lost
        self.slots, self.codes, self.endless, self.on_look = slots, codes or {}, endless, on_look
        self.running, self.started, self.stops, self.most, self.is_closed = [], [], [], 0, False

    def start(self, order):
        self.started.append(order.name)
        self.running.append(order.name)
        self.most = max(self.most, len(self.running))
        return f"handle of {order.name}"

    def finished(self, seconds):
        self.on_look()
        free = [name for name in self.running if name not in self.endless or f"handle of {name}" in self.stops]
        if not free:
            return []
        self.running.remove(free[0])
        codes = self.codes.get(free[0], [0])
        code = codes.pop(0) if len(codes) > 1 else codes[0]
        return [TrialResult(f"handle of {free[0]}", code, is_lost=free[0] in self.lost and code != 0)]

    def stop(self, handle):
        self.stops.append(handle)

    def close(self):
        self.is_closed = True


def test_all_is_done_with_no_more_side_by_side_than_there_are_slots():
    work, slots = TrialSource("abcdefg"), Slots(slots=3)
    assert run_trials(slots, work) == 0
    assert sorted(name for name, _, _ in work.ends) == list("abcdefg")
    assert slots.most == 3
    assert slots.is_closed


def test_one_that_fails_does_not_stop_the_others():
    work = TrialSource("abc")
    run_trials(Slots(codes={"a": [1]}), work)
    assert {name: code for name, code, _ in work.ends} == {"a": 1, "b": 0, "c": 0}


def test_one_that_is_killed_is_started_again_and_given_up_in_the_end():
    work, slots = TrialSource("ab"), Slots(codes={"a": [-9, 0], "b": [-9]})
    run_trials(slots, work)
    assert {name: code for name, code, _ in work.ends} == {"a": 0, "b": -9}
    assert (slots.started.count("a"), slots.started.count("b")) == (2, 1 + RESTARTS)
    assert work.continuations.count("b") == RESTARTS


def test_one_whose_machine_is_lost_goes_on_elsewhere_and_is_lost_for_good_after_three_times():
    work, slots = TrialSource("ab"), Slots(codes={"a": [1, 0], "b": [1]}, lost=("a", "b"))
    run_trials(slots, work)
    assert (slots.started.count("a"), slots.started.count("b")) == (2, 1 + RESTARTS)
    assert work.lost == {"a": False, "b": True}


def test_slots_that_come_and_go_are_followed():
    """One at first, none for a while, then three: nothing is started that has no slot, and everything is done."""
    work, slots = TrialSource("abcdef"), Slots(slots=1)
    counts = iter([1, 1, 0, 0, 0])
    slots.on_look = lambda: setattr(slots, "slots", next(counts, 3))
    assert run_trials(slots, work) == 0
    assert sorted(name for name, _, _ in work.ends) == list("abcdef")
    assert slots.most == 3


def test_without_a_slot_for_long_the_sweep_is_interrupted(monkeypatch):
    monkeypatch.setattr(module, "EMPTY_SECONDS", 0.0)
    slots = Slots(slots=0)
    with pytest.raises(RunFailed, match=r"No slot.*same command resumes"):
        run_trials(slots, TrialSource("a"))
    assert slots.is_closed


def test_who_is_not_wanted_any_more_is_requested_once_to_stop():
    work, slots = TrialSource("ab", names_to_stop=["a"]), Slots(endless=("a",), codes={"a": [143]})
    assert run_trials(slots, work) == 0
    assert slots.stops == ["handle of a"]
    assert ("a", 143, False) in work.ends


def test_after_a_signal_nothing_is_started_and_all_are_requested_to_stop():
    looks = []

    def interrupt_once():
        looks.append(1)
        if len(looks) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    work = TrialSource("abcd")
    slots = Slots(endless=("a", "b"), codes={"a": [143], "b": [143]}, on_look=interrupt_once)
    assert run_trials(slots, work) == 130
    assert slots.started == ["a", "b"]
    assert sorted(slots.stops) == ["handle of a", "handle of b"]
    assert work.ends == [("a", 143, True), ("b", 143, True)]


def test_the_second_signal_ends_everything_at_once():
    slots = Slots(endless=("a",), on_look=lambda: os.kill(os.getpid(), signal.SIGINT))
    slots.stop = lambda handle: None
    assert run_trials(slots, TrialSource("a")) == 130
    assert slots.is_closed


def test_slots_of_this_machine_or_of_a_plugin(monkeypatch):
    assert isinstance(find_slots("local")(SlotRequest(3)), LocalSlots)
    monkeypatch.setattr(module, "load_service", lambda name, service: lambda wanted: (name, service, wanted.count))
    assert find_slots("ray")(SlotRequest(3)) == ("ray", "trial_slots", 3)


def test_a_plugin_that_is_not_there_is_not_found():
    with pytest.raises(NotFound, match="No executor named 'elsewhere'"):
        find_slots("elsewhere")


LONG = {"total_steps": 10_000_000, "loggers.tensorboard": False}
PATIENCE = 60.0


def order_of(tmp_path, name, **settings):
    request, config = prepare_run("cartpole", settings, name, "")
    return make_order(request, config, tmp_path / "runs", tmp_path)


def wait_for(slots):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ends = slots.finished(1.0)
        if ends:
            return ends
    raise AssertionError("nothing ended")


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("count", "cpus", "slots"), [(3, 1, 3), (None, 1, core_count()), (None, core_count(), 1), (None, 10**6, 1)]
)
def test_there_are_as_many_slots_as_requested_or_as_the_cores_allow(count, cpus, slots):
    assert LocalSlots(SlotRequest(count, cpus)).slots == slots


def test_nothing_running_is_nothing_finished_and_it_does_not_wait_longer_than_reported():
    assert LocalSlots(SlotRequest(1)).finished(0.0) == []


def test_the_last_line_of_a_log_reports_why(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("first\n" * 1000 + "\nSegmentation fault\n\n")
    assert last_line(log) == "Segmentation fault"
    log.write_text("")
    assert str(log) in last_line(log)


def test_a_process_that_prints_nothing_is_reported_by_its_exit_code(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    slots = LocalSlots(SlotRequest(1))
    slots.start(TrialRequest("x", "{}", tmp_path / "x.log"))
    (end,) = wait_for(slots)
    assert (end.handle, end.exit_code) == ("x", 1)
    assert "It printed nothing" in end.error


@pytest.mark.slow
def test_a_trial_trains_and_its_end_is_reported_once(tmp_path):
    slots = LocalSlots(SlotRequest(2))
    handle = slots.start(order_of(tmp_path, "one", total_steps=256))
    (end,) = wait_for(slots)
    assert (end.handle, end.exit_code, end.error) == (handle, 0, "")
    assert slots.finished(0.0) == []
    assert read_record(RunStore(tmp_path / "runs").named("one")).state is RunState.FINISHED


@pytest.mark.slow
def test_a_refusal_is_reported_in_its_own_words(tmp_path):
    slots = LocalSlots(SlotRequest(1))
    slots.start(order_of(tmp_path, "one", **{"env.id": "CartPoll-v1"}))
    (end,) = wait_for(slots)
    assert end.exit_code == 3
    assert "CartPoll-v1" in end.error
    assert RunStore(tmp_path / "runs").list() == []


@pytest.mark.slow
def test_a_stopped_trial_saves_and_leaves_and_a_closed_one_is_gone(tmp_path):
    slots = LocalSlots(SlotRequest(2))
    store = RunStore(tmp_path / "runs")
    for name in ("one", "two"):
        slots.start(order_of(tmp_path, name, **LONG))
    until(lambda: all((run := store.named(name)) and read_record(run).epoch > 0 for name in ("one", "two")))
    slots.stop("one")
    (end,) = wait_for(slots)
    assert (end.handle, end.exit_code) == ("one", 143)
    assert read_record(store.named("one")).state is RunState.CANCELLED
    assert list(store.named("one").checkpoints.glob("model_*.safetensors"))
    slots.close()
    assert read_record(store.named("two")).state is RunState.LOST


@pytest.mark.slow
def test_no_trial_outlives_whoever_started_it(tmp_path):
    order = order_of(tmp_path, "one", **LONG)
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from palaestra.core.trials import SlotRequest, TrialRequest\n"
        "from palaestra.sweeps.scheduler import LocalSlots\n"
        "slots = LocalSlots(SlotRequest(1))\n"
        "slots.start(TrialRequest('one', sys.stdin.read(), Path(sys.argv[1])))\n"
        "slots.finished(600)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", script, str(order.log)], stdin=subprocess.PIPE, text=True)
    starter.stdin.write(order.job)
    starter.stdin.close()
    store = RunStore(tmp_path / "runs")
    until(lambda: (run := store.named("one")) and read_record(run).state is RunState.RUNNING)
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    until(lambda: read_record(store.named("one")).state is RunState.LOST)
