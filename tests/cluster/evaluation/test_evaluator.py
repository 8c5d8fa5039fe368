import pytest

from palaestra.cluster.evaluation.client import EvaluationResult
from palaestra.cluster.evaluation.evaluator import RayEvaluator
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed
from palaestra.core.evaluation import Stopped, SuiteReport
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.plans import merge_episodes
from palaestra.evaluation.session import EvaluationCallbacks, EvaluationOptions, EvaluationSession
from palaestra.evaluation.summary import read_batches
from palaestra.evaluation.targets import load_policy_target


class Elsewhere:
    """A RayEvaluator that plays here, two episodes at a time, as far as it is told."""

    def __init__(self, target, playable=None, error=None):
        self.player, self.playable, self.error = LocalEvaluator(target.loaded), playable, error
        self.sent, self.dropped, self._responses = [], [], []

    def send(self, request, sidecar, *, trust_module, on_episodes):
        assert sidecar.exists()
        self.sent.append((request, trust_module))
        self.number = len(self.sent)
        (plan,) = request.plans
        self.shares = [list(self.player.evaluate(plan))[: self.playable]]
        self.on_episodes, self.request = on_episodes, request
        return self.number

    def wait(self, seconds):
        pass

    def responses(self):
        if self.shares:
            episodes = self.shares.pop()
            self.on_episodes(episodes)
            (plan,) = self.request.plans
            report = SuiteReport((merge_episodes(plan, episodes, 1.0),), 1.0) if episodes else None
            self._responses = [EvaluationResult(self.number, self.request, report, 0, self.error)]
            return [EvaluationResult(99, self.request, None)]  # of somebody else
        return self._responses

    def cancel(self, number):
        self.dropped.append(number)


@pytest.fixture
def target(trained_run):
    return load_policy_target("judged:3", trained_run.root)


def evaluation(target, elsewhere, episodes=4):
    return EvaluationSession(target, EvaluationOptions(episodes=episodes), evaluator=RayEvaluator(elsewhere, target))


def test_an_evaluation_elsewhere_leaves_what_one_here_leaves(trained_run, target):
    observed = []
    with evaluation(target, Elsewhere(target)) as remote:
        report = remote.evaluate(0, EvaluationCallbacks(observed.append))
    with EvaluationSession(target, EvaluationOptions(episodes=4)) as local:
        at_home = local.evaluate(0)
    assert report.episodes == at_home.episodes == tuple(observed)
    first, second = ({**line, "seconds": 0} for line in read_batches(trained_run.directory))
    assert {name for name in first if first[name] != second[name]} == {"batch", "file", "simulations", "at"}


def test_modules_are_trusted_as_far_as_the_run_is_ones_own(target):
    elsewhere = Elsewhere(target)
    with evaluation(target, elsewhere) as remote:
        remote.evaluate(0)
    ((request, trusted),) = elsewhere.sent
    assert trusted == target.is_own is True
    assert request.weights == target.checkpoint.files["model_0003.safetensors"]["sha256"]


@pytest.mark.fault("V2")
def test_a_partial_result_is_marked_and_leaves_no_score(trained_run, target, caplog):
    elsewhere = Elsewhere(target, playable=2, error=RunFailed("2 episodes were lost."))
    with evaluation(target, elsewhere) as remote:
        report = remote.evaluate(0)
    assert (report.complete, len(report.episodes)) == (False, 2)
    assert [record.getMessage() for record in caplog.records] == [
        f"{target.name} was evaluated in part: 2 episodes were lost."
    ]
    assert trained_run.score(3) is None
    assert [line["complete"] for line in read_batches(trained_run.directory)] == [False]


def test_a_failure_is_raised_and_leaves_nothing(trained_run, target):
    elsewhere = Elsewhere(target, playable=0, error=RunFailed("Ray is away."))
    with evaluation(target, elsewhere) as remote, pytest.raises(RunFailed, match="Ray is away"):
        remote.evaluate(0)
    assert read_batches(trained_run.directory) == []


def test_a_stop_gives_up_what_is_under_way(trained_run, target):
    elsewhere = Elsewhere(target)
    elsewhere.responses = list  # nothing ever comes
    calls = []

    def is_stopped():
        calls.append(1)
        return len(calls) > 3

    with evaluation(target, elsewhere) as remote, pytest.raises(Stopped):
        remote.evaluate(0, EvaluationCallbacks(is_stopped=is_stopped))
    assert elsewhere.dropped == [1]
    assert read_batches(trained_run.directory) == []


def test_episodes_are_plain_results(target):
    elsewhere = Elsewhere(target)
    with evaluation(target, elsewhere) as remote:
        assert all(isinstance(episode, EpisodeResult) for episode in remote.evaluate(0).episodes)
