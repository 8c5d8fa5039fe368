"""Runs with checkpoints that matches are played with."""

from __future__ import annotations

import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.run import RunRequest
from palaestra.core.spaces import encode_interface
from palaestra.policies.build import build_policy
from palaestra.runner.match.match import Match
from palaestra.runner.match.plan import MatchPlan
from palaestra.runner.match.seats import make_match_env
from palaestra.runs.store import RunStore

POLE = EnvConfig(id="CartPole-v1", max_episode_steps=40)
CROWD = EnvConfig(id="palaestra/Crowd-v0", kwargs={"agents": 3, "steps": 12})
POLICY = PolicyConfig(graph="mlp", settings={"hidden": [8]})


class Runs:
    def __init__(self, root):
        self.root = root
        self.told = []

    def save(self, name, env, epoch, seed=0):
        store = RunStore(self.root)
        directory = store.find(name) or store.create(RunRequest("native", "x", {}), config={}, name=name)
        world = make_match_env(env)
        torch.manual_seed(seed)
        policy = build_policy(POLICY, world.interface)
        world.close()
        checkpoint = Checkpoint(
            epoch=epoch,
            agent_step=epoch * 100,
            total_time=1.0,
            run=directory.id,
            run_name=name,
            saved_at=0.0,
            policy=POLICY.model_dump(),
            env=env.model_dump(),
            interface=encode_interface(policy.interface),
        )
        CheckpointManager(directory).save(policy, checkpoint)

    def match(self, *seats, **plan):
        return Match(MatchPlan(seats=tuple(seats), **plan), self.root, self.told.append)

    def ended(self, key="return"):
        return [word["ended"][key] for word in self.told if "ended" in word]


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")
