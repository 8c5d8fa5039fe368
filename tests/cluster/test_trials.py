import json
import time
from contextlib import contextmanager
from types import SimpleNamespace

import psutil
import pytest

from palaestra import plugins
from palaestra.cluster import trials
from palaestra.cluster.trials import RaySlots
from palaestra.config.recipes.find import find_recipe
from palaestra.contracts.errors import UsageError
from palaestra.contracts.run import RunRequest, RunState
from palaestra.contracts.trials import SlotsWanted, TrialOrder
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.workers.job import Job


@pytest.fixture
def paper(monkeypatch):
    """A cluster of six processors and two GPUs that nobody has; what it was asked with."""
    asked = []

    @contextmanager
    def open_ray(address, *, cpus):
        asked.append((address, cpus))
        yield SimpleNamespace(ray=None, cpus=float(cpus or 6), gpus=2.0)

    monkeypatch.setattr(trials, "open_ray", open_ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return asked


@pytest.mark.parametrize(
    ("wanted", "slots"),
    [
        (SlotsWanted(None), 6),
        (SlotsWanted(None, cpus_each=4), 1),
        (SlotsWanted(None, gpus_each=0.5), 4),
        (SlotsWanted(3, address="head:1"), 3),
        (SlotsWanted(9, address="head:1", cpus=6), 6),
        (SlotsWanted(9), 9),  # on a Ray of one's own, whoever names a number gets it
    ],
)
def test_there_are_as_many_slots_as_fit_and_no_more_than_wanted(paper, wanted, slots):
    assert RaySlots(wanted).slots == slots
    assert paper[0][0] == wanted.address


def test_a_trial_that_fits_nowhere_is_refused_with_both_numbers(paper):
    with pytest.raises(UsageError, match="needs 8 CPUs.*has 6"):
        RaySlots(SlotsWanted(None, cpus_each=8))


def test_the_slots_are_a_plugin():
    assert plugins.load("slots", "ray") is RaySlots


def order(tmp_path, name, total_steps):
    tiny = {"env_count": 2, "horizon": 16, "minibatch_size": 16}
    base = find_recipe("cartpole").config
    config = base.model_copy(update={"total_steps": total_steps, "ppo": base.ppo.model_copy(update=tiny)})
    job = Job(RunRequest("native", "cartpole", {}, name=name), config, tmp_path / "runs", quiet=True)
    return TrialOrder(name, job.to_json(), tmp_path / f"{name}.log")


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline


def steps_of(runs, name):
    found = RunStore(runs).named(name)
    return read_record(found).agent_step if found else 0


@pytest.mark.full
@pytest.mark.slow
def test_trials_run_side_by_side_end_are_stopped_and_leave_nothing(tmp_path):
    runs = tmp_path / "runs"
    slots = RaySlots(SlotsWanted(2))
    try:
        assert slots.slots == 2
        short = slots.start(order(tmp_path, "short", 64))
        endless = slots.start(order(tmp_path, "endless", 10**9))
        ends = []
        wait_for(lambda: ends.extend(slots.finished(1.0)) or ends)
        assert [(end.handle, end.exit_code, end.error) for end in ends] == [(short, 0, "")]
        wait_for(lambda: steps_of(runs, "endless") > 0)
        slots.stop(endless)
        wait_for(lambda: ends.extend(slots.finished(1.0)) or len(ends) == 2)
        assert (ends[1].handle, ends[1].exit_code) == (endless, 143)
        assert slots.finished(0.0) == []
        bad = json.loads(order(tmp_path, "bad", 64).job)
        bad["config"]["env"]["id"] = "NoSuchEnv-v0"
        slots.start(TrialOrder("bad", json.dumps(bad), tmp_path / "bad.log"))
        wait_for(lambda: ends.extend(slots.finished(1.0)) or len(ends) == 3)
        assert ends[2].exit_code == 3
        assert "NoSuchEnv-v0" in ends[2].error
        slots.start(order(tmp_path, "left", 10**9))
        wait_for(lambda: steps_of(runs, "left") > 0)
        left = read_record(RunStore(runs).named("left"))
    finally:
        slots.close()
    wait_for(lambda: not psutil.pid_exists(left.pid))
    assert read_record(RunStore(runs).named("short")).state is RunState.FINISHED
    assert read_record(RunStore(runs).named("endless")).state is RunState.CANCELLED
