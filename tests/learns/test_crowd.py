"""A crowd of players in worlds that are stepped as a batch learns what a single one learns."""

from functools import partial

import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.train import TrainConfig
from palaestra.envs.build import make_playable
from palaestra.evaluation.plans import make_plan
from palaestra.evaluation.play import play
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train


@pytest.mark.parametrize("seed", [1, 2])
def test_everyone_learns_to_say_what_it_sees(seed):
    torch.set_num_threads(1)
    config = TrainConfig(
        total_steps=6144,
        seed=seed,
        env={"id": "palaestra/Crowd-v0", "kwargs": {"agents": 6}},
        ppo={"env_count": 12, "horizon": 32, "minibatch_size": 64, "learning_rate": 3e-3, "gamma": 0.9},
    )
    state = new_training_state(config)
    for _ in train(state):
        pass
    plan = make_plan("in memory", config.env, episodes=5, seed=1_000_000, deterministic=True)
    assert play(plan, state.algorithm.policy(), partial(make_playable, config.env)).returns == [16.0] * 5
