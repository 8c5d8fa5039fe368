"""A teacher or initial weights that only the leader's machine has."""

import pytest
import torch

from palaestra.algorithms.group import Group
from palaestra.checkpoints.loaded import load_policy
from palaestra.config.train import TrainConfig
from palaestra.core.run import RunRequest
from palaestra.runner.job import TrainingJob
from palaestra.runner.shared_policy import load_shared_policy
from palaestra.runner.train import run_training


class Recorder(Group):
    """The leader of two; keeps what it sent."""

    world_size = 2

    def __init__(self):
        self.sent = []

    def broadcast_bytes(self, data):
        self.sent.append(data)
        return data


class Follower(Group):
    rank, world_size = 1, 2

    def __init__(self, sent):
        self.sent = list(sent)

    def broadcast_bytes(self, data):
        return self.sent.pop(0)


@pytest.fixture
def runs_root(tmp_path):
    settings = {
        "total_steps": 32,
        "ppo": {"env_count": 2, "horizon": 16, "minibatch_size": 16},
        "loggers": {"console": False, "tensorboard": False},
    }
    run_training(
        TrainingJob(
            RunRequest("native", "", {}, name="master"), TrainConfig.model_validate(settings), tmp_path / "runs"
        )
    )
    return tmp_path / "runs"


def test_a_follower_without_the_run_gets_the_leaders_policy(runs_root, tmp_path):
    leader = Recorder()
    expected = load_shared_policy("master", runs_root, leader).policy.state_dict()
    taken = load_shared_policy("master", tmp_path / "empty", Follower(leader.sent)).policy.state_dict()
    assert taken.keys() == expected.keys() != set()
    assert all(torch.equal(taken[name], expected[name]) for name in taken)


def test_alone_it_is_the_policy_of_the_target(runs_root):
    shared, loaded = load_shared_policy("master", runs_root, Group()), load_policy("master", runs_root)
    expected = loaded.policy.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in shared.policy.state_dict().items())
