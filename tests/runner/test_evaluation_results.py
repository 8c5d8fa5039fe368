import statistics

import pytest

from palaestra.core.episodes import EpisodeResult
from palaestra.core.evaluation import EvaluationPlan, EvaluationReport, SuiteReport
from palaestra.core.run import RunRequest
from palaestra.evaluation.summary import read_batches
from palaestra.runner.evaluation_results import EvaluationResults
from palaestra.runs.store import RunStore


@pytest.fixture
def directory(tmp_path):
    return RunStore(tmp_path).create(RunRequest("evaluate", "", {}), {})


def played(simulation, *returns):
    plan = EvaluationPlan("RUN:2", "CartPole-v1", {}, tuple(range(len(returns))), simulation=simulation)
    episodes = tuple(EpisodeResult(seed, value, 10, terminated=True) for seed, value in enumerate(returns))
    return EvaluationReport(plan, episodes, 1.0, complete=True)


def batch(*reports):
    return SuiteReport(reports, 1.0)


def test_statistics_are_those_of_all_episodes_of_all_batches(directory):
    with EvaluationResults(directory) as results:
        assert results.statistics == {}
        results.add(batch(played("one", 1.0, 2.0, 6.0)), 2)
        results.add(batch(played("one", 10.0, 3.0)), 2)
        found = results.statistics
    returns = [1.0, 2.0, 6.0, 10.0, 3.0]
    assert found["mean"] == pytest.approx(statistics.fmean(returns))
    assert found["std"] == pytest.approx(statistics.pstdev(returns))
    assert (found["min"], found["max"], found["episodes"]) == (1.0, 10.0, 5)


def test_of_several_simulations_none_weighs_more_by_being_played_more(directory):
    with EvaluationResults(directory) as results:
        results.add(batch(played("one", 1.0, 1.0, 1.0), played("two", 5.0)), 2)
        assert results.statistics["mean"] == 3.0
        assert results.statistics["std"] == pytest.approx(statistics.pstdev([1.0, 1.0, 1.0, 5.0]))


def test_a_run_that_is_started_again_goes_on_behind_its_batches(directory):
    with EvaluationResults(directory) as results:
        results.add(batch(played("one", 1.0)), 2)
    with EvaluationResults(directory) as results:
        assert (results.batch_count, results.steps) == (1, 10)
        results.add(batch(played("one", 3.0)), 2)
        assert (results.statistics["mean"], results.steps) == (2.0, 20)
    assert [one["batch"] for one in read_batches(directory)] == [1, 2]


def test_a_return_that_is_not_a_number_does_not_hide_among_the_others(directory):
    with EvaluationResults(directory) as results:
        results.add(batch(played("one", float("nan"))), 2)
    with EvaluationResults(directory) as results:
        results.add(batch(played("one", 3.0)), 2)
        assert results.statistics["mean"] != results.statistics["mean"]
