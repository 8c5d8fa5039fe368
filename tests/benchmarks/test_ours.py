import json
from dataclasses import asdict, replace

import pytest

import palaestra.api
from learn import ours
from learn.result import Job
from learn.tasks import EVALUATION_SEEDS
from palaestra.core.errors import RunFailed
from palaestra.runs.metrics.reader import MetricsReader

JOB = Job(side="ours", task="cartpole", seed=3, total_steps=600, settings={})


def test_a_training_is_evaluated_as_a_user_would(tmp_path):
    result = ours.train_and_evaluate(JOB, tmp_path)
    assert result.steps == 768  # three rollouts of 8 x 32
    again = palaestra.evaluate("trained:latest", runs_root=tmp_path)
    assert list(result.returns) == again.returns
    assert [episode.seed for episode in again.episodes] == list(EVALUATION_SEEDS)


def test_the_last_training_episodes_are_averaged(tmp_path):
    result = ours.train_and_evaluate(JOB, tmp_path)
    (run,) = palaestra.runs(tmp_path)
    with MetricsReader(tmp_path / run.id / "metrics.db") as metrics:
        every = [episode.total_reward for episode in metrics.episodes()]
    assert len(every) < 100
    assert result.training_return == pytest.approx(sum(every) / len(every))


def test_overrides_of_a_trial_reach_the_training(tmp_path):
    changed = replace(JOB, overrides={"ppo": {"horizon": 64}})
    assert ours.train_and_evaluate(changed, tmp_path).steps == 1024


def test_a_training_that_was_stopped_gives_no_result(tmp_path, monkeypatch):
    real = palaestra.train

    def stopped(*arguments, **settings):
        outcome = real(*arguments, **settings)
        return replace(outcome, record=replace(outcome.record, agent_step=512))

    monkeypatch.setattr(palaestra, "train", stopped, raising=False)
    job_file, result_file = tmp_path / "job", tmp_path / "result.json"
    job_file.write_text(json.dumps(asdict(JOB)))
    with pytest.raises(RunFailed, match="512 of 600"):
        ours.main(job_file, result_file)
    assert not result_file.exists()
