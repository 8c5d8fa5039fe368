"""A run with one checkpoint, made through the same interfaces that training uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.run import RunRequest
from palaestra.core.spaces import encode_interface
from palaestra.envs.make import make_env
from palaestra.envs.spaces import interface_of
from palaestra.policies.build import build_policy
from palaestra.runs.store import RunStore
from tests.runner.conftest import bench, clock, config, make_bench_fixture, small_config_fixture  # noqa: F401  fixtures

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.policies.agent import Agent
    from palaestra.runs.directory import RunDirectory


def fresh_policy(env: EnvConfig, seed: int = 0, **settings: object) -> Agent:
    torch.manual_seed(seed)
    made = make_env(env)
    policy = build_policy(PolicyConfig(graph="mlp", settings={"hidden": [8], **settings}), interface_of(made))
    made.close()
    return policy


@dataclass(frozen=True)
class TrainedRun:
    root: Path
    directory: RunDirectory
    env: EnvConfig

    def save(self, epoch: int, seed: int = 0) -> Checkpoint:
        policy = fresh_policy(self.env, seed)
        checkpoint = Checkpoint(
            epoch=epoch,
            agent_step=epoch * 100,
            total_time=1.0,
            run=self.directory.id,
            run_name="judged",
            saved_at=0.0,
            policy=PolicyConfig(graph="mlp", settings={"hidden": [8]}).model_dump(),
            env=self.env.model_dump(),
            interface=encode_interface(policy.interface),
        )
        return CheckpointManager(self.directory).save(policy, checkpoint)

    def score(self, epoch: int) -> float | None:
        return CheckpointManager(self.directory).load_weights(epoch)[1].score


@pytest.fixture
def trained_run(tmp_path: Path) -> TrainedRun:
    root = tmp_path / "runs"
    request = RunRequest(kind="native", recipe="cartpole", config={})
    directory = RunStore(root).create(request, config={}, name="judged")
    run = TrainedRun(root, directory, EnvConfig(id="CartPole-v1", max_episode_steps=40))
    run.save(epoch=3)
    return run
