import json

import pytest

from palaestra.cli.request_eval import candidates, parse_request_arguments
from palaestra.cluster.evaluation import jobs
from palaestra.cluster.evaluation.client import EvaluationResult
from palaestra.core.errors import RunFailed
from palaestra.core.evaluation import SuiteReport
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.plans import merge_episodes
from palaestra.evaluation.targets import load_policy_target


class Elsewhere:
    """Plays here what Ray would play; `error` is what it says instead."""

    def __init__(self, root, error=None):
        self.root, self.error, self.sent, self.finished = root, error, [], 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def send(self, request, sidecar, *, trust_module, on_episodes):
        self.sent.append(request)
        return len(self.sent)

    def wait(self, seconds):
        pass

    def responses(self):
        fresh, self.finished = self.sent[self.finished :], len(self.sent)
        first = len(self.sent) - len(fresh) + 1
        return [self._answer(first + number, request) for number, request in enumerate(fresh)]

    def _answer(self, number, request):
        if self.error is not None:
            return EvaluationResult(number, request, None, 0, self.error, is_ray_lost=True)
        loaded = load_policy_target(f"{request.run}:{request.epoch}", self.root).loaded
        reports = tuple(merge_episodes(plan, LocalEvaluator(loaded).evaluate(plan), 1.0) for plan in request.plans)
        return EvaluationResult(number, request, SuiteReport(reports, 1.0))

    def cancel(self, number):
        pass


@pytest.fixture
def elsewhere(runs, monkeypatch):
    stand_in = Elsewhere(runs)
    monkeypatch.setattr(jobs, "RayClient", lambda where: stand_in)
    return stand_in


def test_words_may_come_in_any_order():
    words = parse_request_arguments(["suite=a", "first", "env.max_episode_steps=5", "suite=b.yaml", "second:all"])
    assert (words.targets, words.suites) == (["first", "second:all"], ["a", "b.yaml"])
    assert (words.overrides, words.cluster) == ({"env": {"max_episode_steps": 5}}, {})
    given = parse_request_arguments(
        ["first", "cluster.address=[::1]:6379", "cluster.cpus=2", "cluster.allow_different_code=true"]
    )
    assert given.cluster == {"address": "[::1]:6379", "cpus": 2, "allow_different_code": True}


def test_results_come_back_to_each_run_and_the_next_time_all_are_known(call, elsewhere):
    words = ("request-eval", "first", "second", "--episodes", "2", "--json")
    code, out, err = call(*words)
    assert (code, err) == (0, "")
    messages = json.loads(out)["evaluations"]
    assert [one["status"] for one in messages] == ["done", "done"]
    for name, one in zip(("first", "second"), messages, strict=True):
        at_home = json.loads(call("eval", one["checkpoint"], "--episodes", "2", "--json")[1])
        assert one["mean"] == at_home["mean"], name
    _, out, _ = call(*words)
    assert [one["status"] for one in json.loads(out)["evaluations"]] == ["known", "known"]
    _, out, _ = call(*words, "--again")
    assert [one["status"] for one in json.loads(out)["evaluations"]] == ["done", "done"]


def test_a_dry_run_shows_all_and_asks_nobody(call, elsewhere):
    code, out, err = call(
        "request-eval", "first:all", "suite=default", "suite=cartpole", "--dry-run", "--episodes", "2"
    )
    assert code == 0
    assert out.splitlines()[0].split() == ["checkpoint", "suite", "episodes", "status", "mean", "retries"]
    assert " new " in out
    assert " twice " in out
    assert " new, " in err
    assert elsewhere.sent == []
    code, out, _ = call("request-eval", "first", "--dry-run", "--json")
    (one,) = json.loads(out)["evaluations"]
    assert one["request"]["plans"][0]["env_id"] == "CartPole-v1"
    assert len(one["request"]["weights"]) == 64


def test_when_ray_is_away_it_is_one_line_and_a_bad_end(call, elsewhere):
    elsewhere.error = RunFailed("Ray is away.", "Fetch it.")
    code, out, err = call("request-eval", "first", "second", "--episodes", "2")
    assert code == 1
    assert out.count(" failed ") == 2
    assert err.splitlines() == ["2 failed", "palaestra: 2 times: Ray is away. Fetch it."]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "needs a run"),
        (["nobody"], 3, "nobody"),
        (["firs:all"], 3, "first"),
        (["first", "suite="], 2, "no name"),
        (["first", "suite=nothing"], 3, "No suite named 'nothing'"),
        (["first", "cluster.address=a:1", "cluster.address=b:2"], 2, "set twice"),
        (["first", "cluster.cpus=none"], 2, "cluster.cpus"),
        (["first", "--episodes", "0"], 2, "at least 1"),
        (["first", "env.nonsense=1"], 2, "nonsense"),
        (["first", "--wrong"], 2, "--wrong"),
    ],
)
def test_slips_are_reported_before_anybody_is_requested(call, elsewhere, words, code, said):
    got, out, err = call("request-eval", *words)
    assert (got, out) == (code, "")
    assert said in err
    assert elsewhere.sent == []


def test_all_checkpoints_of_a_run_are_offered(call, runs):
    assert {"first:all", "first:best", "suite=cartpole"} <= set(candidates([]))
