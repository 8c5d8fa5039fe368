from __future__ import annotations

import numpy as np
import pytest

import palaestra.testing.envs  # noqa: F401  registers them, as the entry point does
from palaestra.config.env import EnvConfig
from palaestra.envs.make import make_env
from palaestra.testing.envs import OPTIMAL_RETURNS, Bandit, Corridor


class Remembering:
    """Keeps the last sign it saw."""

    def __init__(self) -> None:
        self.sign = 0

    def __call__(self, observed):
        if observed[:-1].any():
            self.sign = int(observed[:-1].argmax())
        return self.sign


PERFECT_PLAYERS = {
    "palaestra/Identity-v0": int,
    "palaestra/IdentityMultiDiscrete-v0": lambda observed: observed,
    "palaestra/IdentityContinuous-v0": lambda observed: observed,
    "palaestra/Bandit-v0": lambda observed: 2,
    "palaestra/Corridor-v0": lambda observed: 1,
    "palaestra/ConstantReward-v0": lambda observed: 0,
    "palaestra/Recall-v0": Remembering(),
}


def episode(env, player, seed):
    observation, _ = env.reset(seed=seed)
    total = 0.0
    while True:
        observation, reward, terminated, truncated, _ = env.step(player(observation))
        total += reward
        if terminated or truncated:
            return total, terminated


@pytest.mark.parametrize("env_id", OPTIMAL_RETURNS)
def test_a_perfect_player_gets_the_documented_return(env_id):
    env = make_env(EnvConfig(id=env_id))
    returns = [episode(env, PERFECT_PLAYERS[env_id], seed)[0] for seed in range(400)]
    assert np.mean(returns) == pytest.approx(OPTIMAL_RETURNS[env_id], abs=0.05 if "Bandit" in env_id else 1e-9)


@pytest.mark.parametrize("env_id", [name for name in OPTIMAL_RETURNS if "Constant" not in name])
def test_a_random_player_does_clearly_worse(env_id):
    env = make_env(EnvConfig(id=env_id))
    env.action_space.seed(0)
    returns = [episode(env, lambda _: env.action_space.sample(), seed)[0] for seed in range(100)]
    assert np.mean(returns) < OPTIMAL_RETURNS[env_id] - 0.2


def test_what_is_to_be_recalled_is_shown_once_and_requested_sixty_steps_later():
    env = make_env(EnvConfig(id="palaestra/Recall-v0"))
    observation, _ = env.reset(seed=0)
    observed, rewards = [observation], []
    while True:
        observation, reward, terminated, _, _ = env.step(0)
        rewards.append(reward)
        if terminated:
            break
        observed.append(observation)
    assert len(observed) == len(rewards) == 61
    assert observed[0][:2].sum() == 1
    assert not np.any(observed[1:60])
    assert observed[60].tolist() == [0, 0, 1]
    assert not any(rewards[:60])


def test_without_memory_a_cue_cannot_be_recalled_better_than_by_chance():
    env = make_env(EnvConfig(id="palaestra/Recall-v0"))
    returns = [episode(env, lambda observed: 1, seed)[0] for seed in range(400)]
    assert np.mean(returns) == pytest.approx(0.5, abs=0.08)


def test_only_the_time_limit_ends_the_constant_reward():
    assert episode(make_env(EnvConfig(id="palaestra/ConstantReward-v0")), lambda _: 1, 0) == (10.0, False)


def test_a_corridor_walked_the_wrong_way_is_cut_and_not_ended():
    total, terminated = episode(make_env(EnvConfig(id="palaestra/Corridor-v0")), lambda _: 0, 0)
    assert not terminated
    assert total == pytest.approx(-0.32)


def test_a_longer_corridor_pays_less():
    assert episode(Corridor(length=20), lambda _: 1, 0)[0] == pytest.approx(1 - 0.01 * 19)


def test_the_best_arm_is_the_one_that_is_reported_to_be():
    assert max(Bandit.CHANCES) == OPTIMAL_RETURNS["palaestra/Bandit-v0"]
