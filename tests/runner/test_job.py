from pathlib import Path

from palaestra.config.train import TrainConfig
from palaestra.core.run import RunRequest
from palaestra.runner.job import TrainingJob


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
