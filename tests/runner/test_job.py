from __future__ import annotations

from pathlib import Path

from palaestra.config.train import TrainConfig
from palaestra.core.run import RunRequest, RunState
from palaestra.runner.job import TrainingJob, last_metrics, outcome_on_disk
from palaestra.runner.train import run_training


def test_a_job_comes_back_from_json_as_it_was():
    request = RunRequest(
        kind="native", recipe="cartpole", config={"seed": 3}, name="n", submitted_by="cli", command="c"
    )
    config = TrainConfig.model_validate({"seed": 3, "ppo": {"gamma": 0.1 + 0.2}, "env": {"kwargs": {"a": [1, None]}}})
    job = TrainingJob(request, config, Path("/runs"), resume_only=True, accept_changes=frozenset({"seed"}), quiet=True)
    assert TrainingJob.from_json(job.to_json()) == job


def test_a_job_is_one_line():
    job = TrainingJob(RunRequest("native", "", {}, name="two\nlines"), TrainConfig(), Path("runs"))
    assert "\n" not in job.to_json()


def test_the_outcome_on_disk_equals_the_one_of_the_process(tmp_path, small_config, request_of):
    reports = run_training(TrainingJob(request_of("small"), small_config(), tmp_path / "runs", quiet=True))
    found = outcome_on_disk(reports.directory, 0)
    assert found == reports
    assert (found.record.state, found.rank) == (RunState.FINISHED, 0)


def test_timings_are_no_outcome(tmp_path, small_config, request_of):
    reports = run_training(TrainingJob(request_of("small"), small_config(), tmp_path / "runs", quiet=True))
    assert "losses/entropy" in last_metrics(reports.directory)
    assert "charts/SPS" not in last_metrics(reports.directory)
