"""A trial step by step, with an actor on paper; with a real Ray in test_trials.py and tests/sweeps."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from palaestra.cluster import trial as module
from palaestra.cluster.heartbeat import Node
from palaestra.cluster.rank import RankReport, Site
from palaestra.cluster.trial import PlacedTrial
from palaestra.config.train import TrainConfig
from palaestra.core.run import RunRequest
from palaestra.core.trials import SlotsWanted, TrialOrder
from palaestra.runner.job import TrainingJob
from palaestra.runs.code_identity import code_identity, package_files

HERE = code_identity()


class Lost(Exception):
    pass


class PaperActor:
    """Answers from a script: method -> answers in order; a method without an answer is silent."""

    def __init__(self, answers):
        self.answers, self.calls = answers, []

    def __getattr__(self, method):
        def remote(*words, **options):
            self.calls.append((method, words))
            waiting = self.answers.get(method, [])
            return [waiting.pop(0)] if waiting else []

        return SimpleNamespace(remote=remote)


class PaperRay:
    exceptions = SimpleNamespace(RayError=Lost)

    def __init__(self, **answers):
        self.actor, self.killed = PaperActor(answers), False
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
def place(tmp_path):
    def make(ray, **settings):
        config = TrainConfig.model_validate(settings)
        job = TrainingJob(RunRequest("native", "", {}, "t"), config, tmp_path / "runs")
        order = TrialOrder("t", job.to_json(), tmp_path / "t.log")
        return PlacedTrial(ray, order, Node("n", "10.0.0.2", 1.0, 0.0), "m", SlotsWanted(None), is_embedded=False)

    return make


def polled(trial, times=4):
    for _ in range(times):
        if trial.end is None and not trial.failure:
            trial.poll()
    return trial


def site(sees_runs=True, code=HERE):
    return Site("n", "host", "10.0.0.2", sees_runs, code)


ENDED = {"exit_code": 2, "at": 1.0, "error": "It fell.", "hint": "Stand."}


def test_a_trial_starts_writes_its_log_and_says_what_went_wrong(place, tmp_path):
    reports = [RankReport(1.0, 7, b"trained\n"), RankReport(1.0, 7, b"", True, 2, 1.0, ENDED)]
    ray = PaperRay(site=[site()], start=[""], report=reports)
    trial = polled(place(ray))
    assert (trial.end.exit_code, trial.end.error, trial.end.is_lost) == (2, "It fell. Stand.", False)
    assert (tmp_path / "t.log").read_bytes() == b"trained\n"
    assert ray.killed
    started = next(words for method, words in ray.actor.calls if method == "start")
    assert started[0] is None
    assert started[4] is None, "a machine that sees the runs gets nothing"


def test_a_machine_without_the_disk_gets_the_run_and_its_copy_is_let_go_at_the_end(place, tmp_path):
    ray = PaperRay(site=[site(sees_runs=False)], start=["/tmp/far"], report=[RankReport(1.0, 7, b"", True, 0, 1.0)])
    trial = polled(place(ray))
    assert trial.end.exit_code == 0
    started = next(words for method, words in ray.actor.calls if method == "start")
    assert started[4].runs == ()


def test_a_machine_that_is_lost_while_it_trains_loses_the_trial(place):
    trial = polled(place(PaperRay(site=[site()], start=[""], report=[Lost("The node died.")])))
    assert trial.end.is_lost
    assert trial.end.error == "Ray lost it on host: The node died."


def test_one_that_leaves_before_the_process_started_loses_nothing(place):
    trial = polled(place(PaperRay(site=[Lost("not schedulable")])))
    assert (trial.end, trial.failure, trial.has_other_code) == (None, "not schedulable", False)


def test_other_code_is_named_unless_it_was_accepted(place):
    other = replace(HERE, package="x")
    files = [{**package_files(), "algorithms/ppo/update.py": "edited"}]
    trial = polled(place(PaperRay(site=[site(code=other)], code_files=files)))
    assert trial.has_other_code
    assert "algorithms/ppo/update.py" in trial.failure
    accepted = place(PaperRay(site=[site(code=other)]), cluster={"allow_different_code": True})
    assert polled(accepted).failure == ""


def test_a_trial_that_was_stopped_before_it_began_does_not_begin(place):
    ray = PaperRay()
    trial = place(ray)
    trial.stop()
    assert polled(trial).end.exit_code == 143
    assert "start" not in [method for method, _ in ray.actor.calls]


def test_one_that_is_stopped_while_it_starts_hears_of_it_as_soon_as_it_can(place):
    ray = PaperRay(site=[site()], start=[""])
    trial = place(ray)
    trial.poll()
    trial.stop()
    polled(trial)
    assert ("signal", (15,)) in ray.actor.calls


def test_an_end_without_a_word_is_named_by_its_signal_or_code():
    assert module._silent_end(-9) == "Its process was ended by SIGKILL."
    assert module._silent_end(7) == "It ended with exit code 7 and without a word."
    assert module._silent_end(143) == ""
