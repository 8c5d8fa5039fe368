import pytest

from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import MissingExtra, RunFailed
from palaestra.core.evaluation import EvaluationReport, SuiteReport
from palaestra.evaluation.request import request_from_json, request_to_json, weights_of
from palaestra.evaluation.summary import read_batches
from palaestra.runner import distant
from palaestra.runner.distant import DistantEvaluator, open_remote, require_remote
from palaestra.training.trainer import train


class FarAway:
    """A remote evaluator that answers when the test says so; requests travel as JSON."""

    def __init__(self):
        self.requests, self.answers, self.is_closed = [], [], False

    def submit(self, request, sidecar):
        assert sidecar.exists()
        self.requests.append(request_from_json(request_to_json(request)))

    def collect(self):
        answers, self.answers = self.answers, []
        return answers

    def close(self):
        self.is_closed = True

    def play(self, request):
        reports = [
            EvaluationReport(plan, tuple(EpisodeResult(seed, float(seed), 1, True) for seed in plan.seeds), 0.1)
            for plan in request.plans
        ]
        self.answers.append((request, SuiteReport(tuple(reports), 0.2)))


@pytest.fixture
def saved(bench):
    next(train(bench.state))
    return bench.saver.save(bench.state)


@pytest.fixture
def far_away(bench):
    remote = FarAway()
    evaluation = bench.state.config.evaluation.model_copy(update={"episodes": 3, "seed": 10})
    return remote, DistantEvaluator(remote, bench.directory, evaluation)


def test_a_request_says_what_is_to_be_played_by_which_weights(saved, far_away):
    remote, evaluator = far_away
    evaluator.ask(saved)
    (request,) = remote.requests
    assert (request.epoch, request.agent_step, request.weights) == (1, 32, weights_of(saved))
    assert [plan.seeds for plan in request.plans] == [(10, 11, 12)]
    assert evaluator.outstanding == 1


def test_what_comes_back_is_written_down_here(bench, saved, far_away):
    remote, evaluator = far_away
    evaluator.ask(saved)
    assert evaluator.collect() == []
    remote.play(remote.requests[0])
    (verdict,) = evaluator.collect()
    assert (verdict.epoch, verdict.step, verdict.metrics["eval/episodic_return"]) == (1, 32, 11.0)
    assert evaluator.outstanding == 0
    (line,) = read_batches(bench.directory)
    assert (line["asked_by"], line["mean"]) == ("remote", 11.0)
    assert bench.manager.list_all_checkpoints()[0].score == 11.0


def test_why_there_is_no_result_is_handed_on(saved, far_away, monkeypatch):
    remote, evaluator = far_away
    evaluator.ask(saved)
    remote.answers = [(remote.requests[0], "The cluster is away.")]
    assert [verdict.error for verdict in evaluator.collect()] == ["The cluster is away."]

    def refuse(request, sidecar):
        raise RunFailed("No cluster answers.")

    monkeypatch.setattr(remote, "submit", refuse)
    evaluator.ask(saved)
    assert [verdict.error for verdict in evaluator.collect()] == ["No cluster answers."]
    assert evaluator.outstanding == 0
    evaluator.close()
    assert remote.is_closed


def test_whoever_asks_without_the_means_is_told_which_extra_brings_them(monkeypatch):
    monkeypatch.setattr(distant, "has_service", lambda name, service: False)
    with pytest.raises(MissingExtra, match="evaluate_remote=true needs the extra 'cluster'"):
        require_remote()


def test_a_plugin_brings_the_remote_evaluator(bench, monkeypatch):
    monkeypatch.setattr(distant, "has_service", lambda name, service: True)
    monkeypatch.setattr(distant, "load_service", lambda name, service: lambda directory: (name, service, directory))
    assert open_remote(bench.directory) == ("ray", "remote_evaluator", bench.directory)


def test_what_was_judged_before_is_not_sent_again(saved, far_away):
    remote, evaluator = far_away
    evaluator.ask(saved)
    remote.play(remote.requests[0])
    first = evaluator.collect()
    evaluator.ask(saved)
    assert len(remote.requests) == 1
    assert evaluator.collect() == first


class SetClock:
    seconds = 0.0

    def monotonic(self):
        return self.seconds

    def now(self):
        return self.seconds


def test_an_answer_that_never_comes_is_given_up_in_time_and_one_that_comes_late_is_not_taken(bench, saved):
    remote, clock = FarAway(), SetClock()
    evaluation = bench.state.config.evaluation.model_copy(update={"episodes": 3, "timeout_seconds": 60.0})
    evaluator = DistantEvaluator(remote, bench.directory, evaluation, clock)
    evaluator.ask(saved)
    clock.seconds = 59.0
    assert evaluator.collect() == []
    clock.seconds = 61.0
    (verdict,) = evaluator.collect()
    assert (verdict.epoch, verdict.error) == (1, "No answer within evaluation.timeout_seconds=60.")
    assert evaluator.outstanding == 0
    remote.play(remote.requests[0])
    assert evaluator.collect() == []
    assert read_batches(bench.directory) == []
