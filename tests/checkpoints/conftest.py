"""What the tests of this room share: a description, a small policy, a directory with two checkpoints."""

import dataclasses

import pytest
import torch
from torch import nn

from palaestra.checkpoints.store import CheckpointStore
from palaestra.config.train import CheckpointConfig
from palaestra.core.checkpoint import Checkpoint

DESCRIBED = Checkpoint(
    epoch=10,
    agent_step=5120,
    total_time=12.5,
    run="01JCHECKPOINTS0000000000AB",
    run_name="first",
    saved_at=1_700_000_000.25,
    policy={"graph": "mlp", "settings": {"hidden": [8, 8]}},
    env={"id": "CartPole-v1", "kwargs": {}},
    interface={},
    seed=3,
    metrics={"losses/value_loss": 0.5},
    versions={"palaestra": "0.1.0"},
    git_commit="abc123",
)


@pytest.fixture
def describe():
    """`describe(epoch, score=…)`: a checkpoint as the trainer hands it over, its step following its epoch."""

    def make(epoch=10, **changes):
        return dataclasses.replace(DESCRIBED, **{"epoch": epoch, "agent_step": epoch * 512, **changes})

    return make


@pytest.fixture
def policy():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))


@pytest.fixture
def save(tmp_path, describe, policy):
    """`save(epoch, score=…)`: save with weights that tell their epoch, in tmp_path."""

    def one(epoch, trainer_state="default", keep=None, keep_trainer_states=2, **changes):
        config = None if keep is None else CheckpointConfig(keep=keep, keep_trainer_states=keep_trainer_states)
        with torch.no_grad():
            policy[0].weight.fill_(float(epoch))
        state = {"epoch": epoch} if trainer_state == "default" else trainer_state
        return CheckpointStore(tmp_path / "checkpoints", config).save(policy, describe(epoch, **changes), state)

    return one


@pytest.fixture
def manager(tmp_path):
    return CheckpointStore(tmp_path / "checkpoints")


@pytest.fixture
def damage():
    """`damage(path)`: flip one bit in the middle, so that the size stays."""

    def flip(path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    return flip
