from statistics import fmean, pstdev

import pytest

from palaestra.core.episodes import EpisodeResult
from palaestra.core.evaluation import EvaluationPlan, EvaluationReport, SuiteReport


def test_mean_and_deviation_are_those_of_the_episodes():
    rewards = [1.0, 4.0, -2.5, 8.0]
    episodes = tuple(EpisodeResult(seed, reward, 10, terminated=True) for seed, reward in enumerate(rewards))
    report = EvaluationReport(EvaluationPlan("run:1", "CartPole-v1", {}, (0, 1, 2, 3)), episodes, seconds=0.1)
    assert report.returns == rewards
    assert report.mean == pytest.approx(fmean(rewards))
    assert report.std == pytest.approx(pstdev(rewards))


def suite(*simulations, missing=()):
    reports = []
    for name, rewards, complete in simulations:
        plan = EvaluationPlan("run:1", "CartPole-v1", {}, tuple(range(len(rewards))), simulation=name, suite="mine")
        episodes = tuple(EpisodeResult(seed, reward, 10, terminated=True) for seed, reward in enumerate(rewards))
        reports.append(EvaluationReport(plan, episodes, 0.1, complete))
    return SuiteReport(tuple(reports), 0.3, missing)


def test_a_suite_weighs_its_simulations_alike_however_often_each_was_played():
    report = suite(("a", [0.0], True), ("b", [10.0, 20.0, 30.0], True))
    assert report.mean == pytest.approx(10.0)
    assert report.returns == [0.0, 10.0, 20.0, 30.0]
    assert report.std == pytest.approx(pstdev(report.returns))
    assert (report.checkpoint, report.suite, report["b"].mean) == ("run:1", "mine", 20.0)


def test_a_suite_is_complete_only_when_nothing_of_it_is_missing():
    assert suite(("a", [0.0], True), ("b", [1.0], True)).complete
    assert not suite(("a", [0.0], True), ("b", [1.0], False)).complete
    assert not suite(("a", [0.0], True), missing=("b",)).complete
