import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.run import RunRequest
from palaestra.runner.job import TrainingJob
from palaestra.runner.teaching import load_teacher
from palaestra.runner.train import run_training

SETTINGS = {
    "total_steps": 64,
    "ppo": {"env_count": 2, "horizon": 16, "minibatch_size": 16, "update_epochs": 1},
    "loggers": {"console": False, "tensorboard": False},
}


def request(name: str) -> RunRequest:
    return RunRequest(kind="native", recipe="", config={}, name=name)


def taught_by(target: str, **changes) -> TrainConfig:
    ppo = {**SETTINGS["ppo"], "kickstart": {"teacher": target}}
    return TrainConfig.model_validate({**SETTINGS, **changes, "ppo": ppo})


@pytest.fixture
def runs_root(tmp_path):
    run_training(TrainingJob(request("master"), TrainConfig.model_validate(SETTINGS), tmp_path))
    return tmp_path


def test_without_a_teacher_there_is_none(tmp_path):
    assert load_teacher(TrainConfig(), tmp_path) is None


def test_the_teacher_is_the_policy_of_the_checkpoint_and_cannot_learn(runs_root):
    teacher = load_teacher(taught_by("master:latest"), runs_root)
    assert teacher is not None
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


def test_a_run_learns_from_the_teacher_named_in_its_configuration(runs_root):
    outcome = run_training(TrainingJob(request("pupil"), taught_by("master"), runs_root))
    assert outcome.exit_code == 0
    assert {"kickstart/action_loss", "kickstart/value_loss"} <= set(outcome.metrics)
    assert torch.isfinite(torch.tensor(outcome.metrics["kickstart/action_loss"]))


def test_a_teacher_that_is_not_there_or_does_not_fit_is_refused_and_leaves_nothing_behind(runs_root):
    before = sorted(runs_root.iterdir())
    with pytest.raises(NotFound):
        run_training(TrainingJob(request("orphan"), taught_by("nobody:best"), runs_root))
    with pytest.raises(UsageError, match="The teacher's observations are box"):
        run_training(TrainingJob(request("stranger"), taught_by("master", env={"id": "Acrobot-v1"}), runs_root))
    assert sorted(runs_root.iterdir()) == before
