from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import psutil
import pytest

from palaestra.cluster.nodes import Node
from palaestra.cluster.training import trials
from palaestra.cluster.training import trials as module
from palaestra.cluster.training.rank_actor import ActorSite, RankReport
from palaestra.cluster.training.trials import RaySlots, RemoteTrial
from palaestra.config.recipes.registry import find_recipe
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.executor import load_service
from palaestra.core.run import RunRequest, RunState
from palaestra.core.trials import SlotRequest, TrialRequest, TrialResult
from palaestra.runner.job import TrainingJob
from palaestra.runs.environment import code_identity, package_files
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore


class PaperRay:
    """A cluster whose nodes come and go; nobody has its processors."""

    def __init__(self, *cpus, gpus=0.0):
        self.there = {f"n{number}": (count, gpus) for number, count in enumerate(cpus)}
        self.killed = []

    def nodes(self):
        return [
            {"NodeID": name, "NodeManagerAddress": name, "Alive": True, "Resources": {"CPU": cpus, "GPU": gpus}}
            for name, (cpus, gpus) in self.there.items()
        ]

    def wait(self, references, **_options):
        return references, []

    def kill(self, actor):
        self.killed.append(actor)


class PaperTrial:
    """Stands where a `PlacedTrial` stands."""

    made: ClassVar[list] = []

    def __init__(self, ray, order, node, marker, wanted, *, is_embedded):
        self.order, self.node, self.actor = order, node, SimpleNamespace(close=SimpleNamespace(remote=lambda: None))
        self.end, self.failure, self.has_different_code, self.was_stopped = None, "", False, False
        PaperTrial.made.append(self)

    def poll(self):
        pass

    def lose(self):
        self.end = TrialResult(self.order.name, 1, "its machine left", is_lost=True)

    def stop(self):
        self.was_stopped = True

    def release(self):
        pass


@pytest.fixture
def paper(monkeypatch):
    """`paper(ray)`: RaySlots on it; `paper.asked` is what Ray was opened with."""
    asked = []

    def open_slots(ray, wanted=None):
        @contextmanager
        def open_ray(address, *, cpus, is_checked):
            asked.append((address, cpus))
            own = PaperRay(float(cpus)) if cpus and address is None else ray
            yield SimpleNamespace(ray=own, cpus=6.0, gpus=2.0, is_embedded=False)

        monkeypatch.setattr(trials, "open_ray", open_ray)
        return RaySlots(wanted or SlotRequest(None))

    monkeypatch.setattr(trials, "RemoteTrial", PaperTrial)
    monkeypatch.setattr(trials, "NODES_SECONDS", 0.0)
    monkeypatch.setattr(trials, "AVOID_SECONDS", 0.0)
    monkeypatch.setattr(PaperTrial, "made", [])
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    open_slots.asked = asked
    return open_slots


@pytest.mark.parametrize(
    ("wanted", "slots"),
    [
        (SlotRequest(None), 6),
        (SlotRequest(None, cpus_each=4), 1),  # four of one machine, not two of each
        (SlotRequest(None, gpus_each=0.5), 4),
        (SlotRequest(3, address="head:1"), 3),
        (SlotRequest(9, address="head:1", cpus=6), 6),
        (SlotRequest(9), 9),  # on a Ray of one's own, whoever names a number gets it
    ],
)
def test_there_are_as_many_slots_as_fit_and_no_more_than_wanted(paper, wanted, slots):
    assert paper(PaperRay(4.0, 2.0, gpus=1.0), wanted).slots == slots
    assert paper.asked[0][0] == wanted.address


def test_a_trial_that_fits_nowhere_is_refused_with_both_numbers(paper):
    with pytest.raises(UsageError, match="needs 8 CPUs.*has 6"):
        paper(PaperRay(4.0, 2.0), SlotRequest(None, cpus_each=8))


def test_slots_follow_the_cluster(paper, tmp_path):
    ray = PaperRay(1.0)
    slots = paper(ray)
    slots.start(order(tmp_path, "a", 64))
    ray.there["late"] = (2.0, 0.0)
    assert slots.slots == 3
    slots.start(order(tmp_path, "b", 64))
    assert [trial.node.id for trial in PaperTrial.made] == ["n0", "late"]
    del ray.there["n0"]
    assert slots.slots == 2
    assert [(end.handle, end.is_lost) for end in slots.finished(0.0)] == [("a", True)]
    slots.close()


def test_a_node_on_which_a_trial_was_lost_is_avoided_for_a_while(paper, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "AVOID_SECONDS", 60.0)
    slots = paper(PaperRay(2.0, 1.0))
    slots.start(order(tmp_path, "a", 64))
    PaperTrial.made[0].lose()
    assert slots.finished(0.0)[0].is_lost
    assert slots.slots == 1
    slots.start(order(tmp_path, "a", 64))
    assert PaperTrial.made[1].node.id == "n1"
    slots.close()


def test_a_node_with_other_code_is_named_and_its_trial_goes_elsewhere(paper, tmp_path, caplog):
    slots = paper(PaperRay(2.0, 1.0))
    slots.start(order(tmp_path, "a", 64))
    first = PaperTrial.made[0]
    first.failure, first.has_different_code = "algorithms/ppo/update.py", True
    assert slots.finished(0.0) == []
    assert "Node left out: n0: its code differs: algorithms/ppo/update.py" in caplog.text
    assert slots.slots == 1
    slots.finished(0.0)
    assert PaperTrial.made[1].node.id == "n1"
    PaperTrial.made[1].failure, PaperTrial.made[1].has_different_code = "x.py", True
    with pytest.raises(UsageError, match=r"n0: its code differs: algorithms/ppo/update.py; n1: .*allow_different_code"):
        slots.finished(0.0)
    slots.close()


def test_a_trial_that_cannot_start_waits_for_a_node_and_a_broken_one_is_left_out(paper, tmp_path):
    ray = PaperRay(1.0, 1.0)
    slots = paper(ray)
    slots.start(order(tmp_path, "a", 64))
    for _ in range(trials.MAX_FAILURES):
        PaperTrial.made[-1].failure = "not schedulable"
        assert slots.finished(0.0) == []
        slots.finished(0.0)
    assert slots.slots == 1
    slots.close()


def test_one_that_waits_for_a_node_can_be_stopped(paper, tmp_path):
    ray = PaperRay(1.0)
    slots = paper(ray)
    ray.there.clear()
    slots.start(order(tmp_path, "a", 64))
    slots.stop("a")
    assert [(end.handle, end.exit_code) for end in slots.finished(0.0)] == [("a", 143)]


def test_the_slots_are_a_plugin():
    assert load_service("ray", "trial_slots") is RaySlots


def order(tmp_path, name, total_steps):
    tiny = {"env_count": 2, "horizon": 16, "minibatch_size": 16}
    base = find_recipe("cartpole").config
    config = base.model_copy(update={"total_steps": total_steps, "ppo": base.ppo.model_copy(update=tiny)})
    job = TrainingJob(RunRequest("native", "cartpole", {}, name=name), config, tmp_path / "runs", quiet=True)
    return TrialRequest(name, job.to_json(), tmp_path / f"{name}.log")


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
    slots = RaySlots(SlotRequest(2))
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
        slots.start(TrialRequest("bad", json.dumps(bad), tmp_path / "bad.log"))
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


HERE = code_identity()


class Lost(Exception):
    pass


class PaperActor:
    """Answers from a script: method -> answers in order; a method without an answer is silent."""

    def __init__(self, responses):
        self.responses, self.calls = responses, []

    def __getattr__(self, method):
        def remote(*arguments, **options):
            self.calls.append((method, arguments))
            waiting = self.responses.get(method, [])
            return [waiting.pop(0)] if waiting else []

        return SimpleNamespace(remote=remote)


class SinglePaperRay:
    exceptions = SimpleNamespace(RayError=Lost)

    def __init__(self, **responses):
        self.actor, self.killed = PaperActor(responses), False
        strategy = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: node)
        self.util = SimpleNamespace(scheduling_strategies=strategy)

    def remote(self, _kind):
        return SimpleNamespace(options=lambda **_options: SimpleNamespace(remote=lambda _number: self.actor))

    def wait(self, references, **_options):
        return [reference for reference in references if reference], []

    def get(self, reference, **_options):
        if isinstance(reference[0], Exception):
            raise reference[0]
        return reference[0]

    def kill(self, _actor):
        self.killed = True


@pytest.fixture
def location(tmp_path):
    def make(ray, **settings):
        config = TrainConfig.model_validate(settings)
        job = TrainingJob(RunRequest("native", "", {}, "t"), config, tmp_path / "runs")
        order = TrialRequest("t", job.to_json(), tmp_path / "t.log")
        return RemoteTrial(ray, order, Node("n", "10.0.0.2", 1.0, 0.0), "m", SlotRequest(None), is_embedded=False)

    return make


def polled(trial, times=4):
    for _ in range(times):
        if trial.end is None and not trial.failure:
            trial.poll()
    return trial


def site(sees_runs=True, code=HERE):
    return ActorSite("n", "host", "10.0.0.2", sees_runs, code)


ENDED = {"exit_code": 2, "at": 1.0, "error": "It fell.", "hint": "Stand."}


def test_a_trial_starts_writes_its_log_and_says_what_went_wrong(location, tmp_path):
    reports = [RankReport(1.0, 7, b"trained\n"), RankReport(1.0, 7, b"", True, 2, 1.0, ENDED)]
    ray = SinglePaperRay(site=[site()], start=[""], report=reports)
    trial = polled(location(ray))
    assert (trial.end.exit_code, trial.end.error, trial.end.is_lost) == (2, "It fell. Stand.", False)
    assert (tmp_path / "t.log").read_bytes() == b"trained\n"
    assert ray.killed
    started = next(arguments for method, arguments in ray.actor.calls if method == "start")
    assert started[0] is None
    assert started[4] is None, "a machine that sees the runs gets nothing"


def test_a_machine_without_the_disk_gets_the_run_and_its_copy_is_let_go_at_the_end(location, tmp_path):
    ray = SinglePaperRay(
        site=[site(sees_runs=False)], start=["/tmp/far"], report=[RankReport(1.0, 7, b"", True, 0, 1.0)]
    )
    trial = polled(location(ray))
    assert trial.end.exit_code == 0
    started = next(arguments for method, arguments in ray.actor.calls if method == "start")
    assert started[4].runs == ()


def test_a_machine_that_is_lost_while_it_trains_loses_the_trial(location):
    trial = polled(location(SinglePaperRay(site=[site()], start=[""], report=[Lost("The node died.")])))
    assert trial.end.is_lost
    assert trial.end.error == "Ray lost it on host: The node died."


def test_one_that_leaves_before_the_process_started_loses_nothing(location):
    trial = polled(location(SinglePaperRay(site=[Lost("not schedulable")])))
    assert (trial.end, trial.failure, trial.has_different_code) == (None, "not schedulable", False)


def test_other_code_is_named_unless_it_was_accepted(location):
    other = replace(HERE, package="x")
    files = {**package_files(), "algorithms/ppo/update.py": "edited"}
    differences = [{"versions": [], "package": files, "modules": {}}]
    trial = polled(location(SinglePaperRay(site=[site(code=other)], code_differences=differences)))
    assert trial.has_different_code
    assert "algorithms/ppo/update.py" in trial.failure
    accepted = location(SinglePaperRay(site=[site(code=other)]), cluster={"allow_different_code": True})
    assert polled(accepted).failure == ""


def test_a_trial_that_was_stopped_before_it_began_does_not_begin(location):
    ray = SinglePaperRay()
    trial = location(ray)
    trial.stop()
    assert polled(trial).end.exit_code == 143
    assert "start" not in [method for method, _ in ray.actor.calls]


def test_one_that_is_stopped_while_it_starts_receives_of_it_as_soon_as_it_can(location):
    ray = SinglePaperRay(site=[site()], start=[""])
    trial = location(ray)
    trial.poll()
    trial.stop()
    polled(trial)
    assert ("signal", (15,)) in ray.actor.calls


def test_an_end_without_a_word_is_named_by_its_signal_or_code():
    assert module._silent_end(-9) == "Its process was ended by SIGKILL."
    assert module._silent_end(7) == "It ended with exit code 7 and without a word."
    assert module._silent_end(143) == ""
