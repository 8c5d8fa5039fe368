"""Real processes, each with torch: the slow ones train a few steps."""

import os
import signal
import subprocess
import sys
import time

import pytest

from palaestra.core.run import RunState
from palaestra.core.trials import SlotsWanted, TrialOrder
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.sweeps.local_slots import LocalSlots, core_count, last_line
from palaestra.sweeps.order import make_order, prepare_run

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
def test_there_are_as_many_slots_as_asked_or_as_the_cores_allow(count, cpus, slots):
    assert LocalSlots(SlotsWanted(count, cpus)).slots == slots


def test_nothing_running_is_nothing_finished_and_it_does_not_wait_longer_than_told():
    assert LocalSlots(SlotsWanted(1)).finished(0.0) == []


def test_the_last_line_of_a_log_tells_why(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("first\n" * 1000 + "\nSegmentation fault\n\n")
    assert last_line(log) == "Segmentation fault"
    log.write_text("")
    assert str(log) in last_line(log)


def test_a_process_that_leaves_without_a_word_is_told_by_its_code(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    slots = LocalSlots(SlotsWanted(1))
    slots.start(TrialOrder("x", "{}", tmp_path / "x.log"))
    (end,) = wait_for(slots)
    assert (end.handle, end.exit_code) == ("x", 1)
    assert "without a word" in end.error


@pytest.mark.slow
def test_a_trial_trains_and_its_end_is_told_once(tmp_path):
    slots = LocalSlots(SlotsWanted(2))
    handle = slots.start(order_of(tmp_path, "one", total_steps=256))
    (end,) = wait_for(slots)
    assert (end.handle, end.exit_code, end.error) == (handle, 0, "")
    assert slots.finished(0.0) == []
    assert read_record(RunStore(tmp_path / "runs").named("one")).state is RunState.FINISHED


@pytest.mark.slow
def test_a_refusal_is_told_in_its_own_words(tmp_path):
    slots = LocalSlots(SlotsWanted(1))
    slots.start(order_of(tmp_path, "one", **{"env.id": "CartPoll-v1"}))
    (end,) = wait_for(slots)
    assert end.exit_code == 3
    assert "CartPoll-v1" in end.error
    assert RunStore(tmp_path / "runs").list() == []


@pytest.mark.slow
def test_a_stopped_trial_saves_and_leaves_and_a_closed_one_is_gone(tmp_path):
    slots = LocalSlots(SlotsWanted(2))
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
        "from palaestra.core.trials import SlotsWanted, TrialOrder\n"
        "from palaestra.sweeps.local_slots import LocalSlots\n"
        "slots = LocalSlots(SlotsWanted(1))\n"
        "slots.start(TrialOrder('one', sys.stdin.read(), Path(sys.argv[1])))\n"
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
