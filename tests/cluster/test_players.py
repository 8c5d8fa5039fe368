import pytest

from palaestra.cluster.evaluator import Answer
from palaestra.cluster.players import RemotePlayers
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed
from palaestra.core.evaluation import Stopped, SuiteReport
from palaestra.evaluation.judged import load_judged
from palaestra.evaluation.local import Asked, Evaluation, Watcher
from palaestra.evaluation.player import Player
from palaestra.evaluation.shares import put_together
from palaestra.evaluation.summary import read_batches


class Elsewhere:
    """A RayEvaluator that plays here, two episodes at a time, as far as it is told."""

    def __init__(self, judged, playable=None, error=None):
        self.player, self.playable, self.error = Player(judged.loaded), playable, error
        self.sent, self.dropped, self._answers = [], [], []

    def send(self, request, sidecar, *, trust_module, on_episodes):
        assert sidecar.exists()
        self.sent.append((request, trust_module))
        self.number = len(self.sent)
        (plan,) = request.plans
        self.shares = [list(self.player.episodes(plan))[: self.playable]]
        self.on_episodes, self.request = on_episodes, request
        return self.number

    def wait(self, seconds):
        pass

    def answers(self):
        if self.shares:
            episodes = self.shares.pop()
            self.on_episodes(episodes)
            (plan,) = self.request.plans
            report = SuiteReport((put_together(plan, episodes, 1.0),), 1.0) if episodes else None
            self._answers = [Answer(self.number, self.request, report, 0, self.error)]
            return [Answer(99, self.request, None)]  # of somebody else
        return self._answers

    def drop(self, number):
        self.dropped.append(number)


@pytest.fixture
def judged(trained_run):
    return load_judged("judged:3", trained_run.root)


def evaluation(judged, elsewhere, episodes=4):
    return Evaluation(judged, Asked(episodes=episodes), players=RemotePlayers(elsewhere, judged))


def test_an_evaluation_elsewhere_leaves_what_one_here_leaves(trained_run, judged):
    seen = []
    with evaluation(judged, Elsewhere(judged)) as remote:
        report = remote.judge(0, Watcher(seen.append))
    with Evaluation(judged, Asked(episodes=4)) as local:
        at_home = local.judge(0)
    assert report.episodes == at_home.episodes == tuple(seen)
    first, second = ({**line, "seconds": 0} for line in read_batches(trained_run.directory))
    assert {name for name in first if first[name] != second[name]} == {"batch", "file", "simulations", "at"}


def test_modules_are_trusted_as_far_as_the_run_is_ones_own(judged):
    elsewhere = Elsewhere(judged)
    with evaluation(judged, elsewhere) as remote:
        remote.judge(0)
    ((request, trusted),) = elsewhere.sent
    assert trusted == judged.is_own is True
    assert request.weights == judged.checkpoint.files["model_0003.safetensors"]["sha256"]


@pytest.mark.fault("V2")
def test_a_partial_result_is_marked_and_leaves_no_score(trained_run, judged, caplog):
    elsewhere = Elsewhere(judged, playable=2, error=RunFailed("2 episodes were lost."))
    with evaluation(judged, elsewhere) as remote:
        report = remote.judge(0)
    assert (report.complete, len(report.episodes)) == (False, 2)
    assert [record.getMessage() for record in caplog.records] == [
        f"{judged.name} was judged in part: 2 episodes were lost."
    ]
    assert trained_run.score(3) is None
    assert [line["complete"] for line in read_batches(trained_run.directory)] == [False]


def test_a_failure_is_raised_and_leaves_nothing(trained_run, judged):
    elsewhere = Elsewhere(judged, playable=0, error=RunFailed("Ray is away."))
    with evaluation(judged, elsewhere) as remote, pytest.raises(RunFailed, match="Ray is away"):
        remote.judge(0)
    assert read_batches(trained_run.directory) == []


def test_a_stop_gives_up_what_is_under_way(trained_run, judged):
    elsewhere = Elsewhere(judged)
    elsewhere.answers = list  # nothing ever comes
    calls = []

    def is_stopped():
        calls.append(1)
        return len(calls) > 3

    with evaluation(judged, elsewhere) as remote, pytest.raises(Stopped):
        remote.judge(0, Watcher(is_stopped=is_stopped))
    assert elsewhere.dropped == [1]
    assert read_batches(trained_run.directory) == []


def test_episodes_are_plain_results(judged):
    elsewhere = Elsewhere(judged)
    with evaluation(judged, elsewhere) as remote:
        assert all(isinstance(episode, EpisodeResult) for episode in remote.judge(0).episodes)
