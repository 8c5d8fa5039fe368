from statistics import fmean, pstdev

import pytest

from palaestra.contracts.episodes import EpisodeResult
from palaestra.contracts.evaluation import EvaluationPlan, EvaluationReport


def test_mean_and_deviation_are_those_of_the_episodes():
    rewards = [1.0, 4.0, -2.5, 8.0]
    episodes = tuple(EpisodeResult(seed, reward, 10, terminated=True) for seed, reward in enumerate(rewards))
    report = EvaluationReport(EvaluationPlan("run:1", "CartPole-v1", {}, (0, 1, 2, 3)), episodes, seconds=0.1)
    assert report.returns == rewards
    assert report.mean == pytest.approx(fmean(rewards))
    assert report.std == pytest.approx(pstdev(rewards))
