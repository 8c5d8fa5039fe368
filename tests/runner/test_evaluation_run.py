from __future__ import annotations

import json
import signal
import statistics
import threading
from contextlib import closing

import pytest

from palaestra.api import train
from palaestra.core.episodes import EpisodeResult
from palaestra.core.evaluation import EvaluationPlan, EvaluationReport, SuiteReport
from palaestra.core.run import RunRequest, RunState
from palaestra.evaluation.summary import read_batches
from palaestra.runner.evaluate_kind import EvaluateConfig
from palaestra.runner.evaluation_run import EvaluationResults
from palaestra.runner.worker import main
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

TINY = {
    "total_steps": 64,
    "ppo.env_count": 2,
    "ppo.horizon": 16,
    "ppo.minibatch_size": 16,
    "loggers.tensorboard": False,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("judge")
    return train("cartpole", run="trained", runs_root=root, **TINY).directory


def evaluation(trained, **settings):
    config = EvaluateConfig(target=f"{trained.id}:latest", **settings).model_dump(mode="json")
    return RunStore(trained.path.parent).create(RunRequest("evaluate", "trained", {}), config)


def test_an_evaluation_has_its_results_in_its_own_directory_and_in_that_of_the_evaluated_run(trained):
    directory = evaluation(trained, episodes=3)
    assert main(directory) == 0
    [own], there = read_batches(directory), read_batches(trained)[-1]
    assert (own["batch"], own["checkpoint"], own["epoch"]) == (1, there["checkpoint"], there["epoch"])
    assert {key: own[key] for key in ("episodes", "avg", "min", "max", "std")} == {
        key: there[key] for key in ("episodes", "avg", "min", "max", "std")
    }
    assert there["evaluation"] == directory.id
    assert "eval.batch" in [entry.event for entry in read_journal(directory.journal_file)]
    with closing(MetricsReader(directory.metrics_file)) as reader:
        assert [point.value for point in reader.series("eval/episodic_return")] == [pytest.approx(own["avg"])]
    assert list(directory.tensorboard_eval.iterdir())


def test_steps_are_steps_of_environments_and_episodes_are_counted_apart(trained):
    directory = evaluation(trained, episodes=3)
    assert main(directory) == 0
    record = read_record(directory)
    rows = json.loads((trained.path / read_batches(trained)[-1]["file"]).read_text())["rows"]
    assert (record.state, record.epoch, record.agent_step) == (
        RunState.FINISHED,
        1,
        sum(row["length"] for row in rows),
    )
    assert (record.summary["episodes"], record.summary["episodes_played"], record.summary["episodes_total"]) == (
        3,
        3,
        3,
    )
    assert record.summary["score"] == pytest.approx(sum(row["total_reward"] for row in rows) / 3)


def test_the_environment_can_be_changed_for_an_evaluation(trained):
    directory = evaluation(trained, episodes=2, env={"max_episode_steps": 5})
    assert main(directory) == 0
    assert (read_batches(directory)[0]["avg"], read_record(directory).agent_step) == (5.0, 10)


def test_the_log_of_an_evaluation_says_what_is_played_and_what_came_of_it(trained, capfd):
    assert main(evaluation(trained, episodes=2, env={"max_episode_steps": 5})) == 0
    reported = capfd.readouterr().err
    assert f"Evaluating {trained.id}:2 in CartPole-v1: 2 episodes from seed 1000000, deterministic actions" in reported
    assert "eval batch 1 | episodes=2 avg=5.0 min=5.0 max=5.0" in reported


def test_batch_after_batch_until_it_is_stopped(trained):
    directory = evaluation(trained, episodes=1, repeat=True)
    watcher = threading.Thread(target=stop_after_two_batches, args=(directory,))
    watcher.start()
    assert main(directory) == 143
    watcher.join()
    record = read_record(directory)
    assert (record.state, record.exit_code) == (RunState.CANCELLED, 143)
    assert record.epoch >= 1
    batches = read_batches(directory)
    assert [batch["seed"] for batch in batches[:2]] == [1_000_000, 1_000_001]  # the seeds that follow
    assert record.summary["episodes_total"] == 0  # it has no end of its own
    assert record.summary["mean"] == pytest.approx(sum(one["avg"] for one in batches) / len(batches))


def stop_after_two_batches(directory):
    while read_record(directory).epoch < 2:
        pass
    signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)


def test_a_checkpoint_that_is_gone_is_a_failure_by_name(trained):
    directory = evaluation(trained, episodes=1)
    text = directory.config_file.read_text().replace(f"{trained.id}:latest", f"{trained.id}:999")
    directory.config_file.write_text(text)
    assert main(directory) == 3
    assert "999" in read_record(directory).failure


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
