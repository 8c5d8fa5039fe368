import pytest

pytest.importorskip("sb3_contrib")

from dataclasses import asdict

import numpy as np
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from learn import sb3
from learn.result import Job
from learn.tasks import TASKS

SETTINGS = {"env_count": 2, "ppo": {"n_steps": 8, "batch_size": 16, "gamma": 0.7}, "policy": {}, "normalize": True}


class Still:
    """Always the same action; remembers what it was shown."""

    def __init__(self):
        self.seen = []

    def predict(self, observation, state, deterministic):
        assert deterministic
        assert state == (len(self.seen) or None), "what it returned as its memory comes back; an episode begins without"
        self.seen.append(observation)
        return 0, len(self.seen)


def test_schedules_fall_to_zero_and_the_activation_is_found_by_name():
    found = sb3.arguments({"ppo": {"clip_range": {"linear": 0.2}, "gamma": 0.9}, "policy": {"activation_fn": "ReLU"}})
    assert found["clip_range"](1.0) == 0.2
    assert found["clip_range"](0.25) == 0.05
    assert found["gamma"] == 0.9
    assert found["policy_kwargs"] == {"activation_fn": torch.nn.ReLU}


def test_rewards_are_normalised_with_the_discount_of_the_task():
    envs = sb3.make_envs(Job("sb3", "acrobot", 1, 100, SETTINGS))
    assert isinstance(envs, VecNormalize)
    assert envs.gamma == 0.7
    assert envs.num_envs == 2
    plain = sb3.make_envs(Job("sb3", "acrobot", 1, 100, {**SETTINGS, "normalize": False}))
    assert not isinstance(plain, VecNormalize)


def test_the_memory_task_is_trained_with_an_lstm_and_the_others_are_not():
    recurrent = Job("sb3", "recall", 1, 100, {**asdict(TASKS["recall"].peer), "env_count": 4})
    model = sb3.make_model(recurrent, sb3.make_envs(recurrent))
    assert isinstance(model, RecurrentPPO)
    assert model.policy.lstm_actor.hidden_size == TASKS["recall"].peer.policy["lstm_hidden_size"]
    plain = Job("sb3", "acrobot", 1, 100, SETTINGS)
    assert type(sb3.make_model(plain, sb3.make_envs(plain))) is PPO


def test_off_policy_tasks_are_trained_with_the_class_and_noise_that_they_name():
    for name, noise in (("cartpole-dqn", None), ("pendulum-sac", None), ("pendulum-td3", 0.1)):
        job = Job("sb3", name, 1, 100, asdict(TASKS[name].peer))
        model = sb3.make_model(job, sb3.make_envs(job))
        assert type(model).__name__ == TASKS[name].peer.algorithm
        assert getattr(model, "action_noise", None) is None if noise is None else model.action_noise._sigma == noise


def test_evaluating_normalises_with_frozen_statistics():
    envs = sb3.make_envs(Job("sb3", "cartpole", 1, 100, SETTINGS))
    envs.obs_rms.mean[:] = 100.0
    before = envs.obs_rms.mean.copy(), envs.obs_rms.count
    model = Still()
    total = sb3.play(model, envs, TASKS["cartpole"].env_id, seed=5)
    assert total == len(model.seen)  # CartPole pays 1 per step
    assert all((observation == -10.0).all() for observation in model.seen)  # far below the mean, clipped
    assert np.array_equal(envs.obs_rms.mean, before[0])
    assert envs.obs_rms.count == before[1]
