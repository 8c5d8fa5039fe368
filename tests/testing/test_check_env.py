from __future__ import annotations

import random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.testing.check_env import EnvCheckFailed, check_env
from palaestra.testing.envs import OPTIMAL_RETURNS, Identity

OUTSIDE = {"steps": 0}


class UnseededDice(Identity):
    def _draw(self):
        return np.int64(random.randrange(self._count))


class StateInTheModule(Identity):
    """Keeps a counter where a capture cannot look."""

    def reset(self, *, seed=None, options=None):
        OUTSIDE["steps"] = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        OUTSIDE["steps"] += 1
        observation, reward, *rest = super().step(action)
        return observation, reward + OUTSIDE["steps"], *rest


class HiddenIterator(Identity):
    def __init__(self):
        super().__init__()
        self.hidden = iter(range(10))


class OutOfSpace(Identity):
    def _draw(self):
        return np.int64(self._count + 3)


class Unseedable(Identity):
    def reset(self):
        return super().reset()


class TextActions(Identity):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Text(3)


@pytest.fixture
def register():
    registered = []

    def add(made_by):
        env_id = f"palaestra_test/{made_by.__name__}-v0"
        gymnasium.register(env_id, made_by)
        registered.append(env_id)
        return EnvConfig(id=env_id)

    yield add
    for env_id in registered:
        del gymnasium.registry[env_id]


@pytest.mark.parametrize("env_id", [*OPTIMAL_RETURNS, "FrozenLake-v1"])
def test_sound_environments_pass(env_id):
    assert check_env(EnvConfig(id=env_id)).why_inexact == ""


def test_random_numbers_that_no_seed_decides_are_found(register):
    with pytest.raises(EnvCheckFailed, match="seed"):
        check_env(register(UnseededDice))


def test_state_outside_of_the_attributes_is_found(register):
    with pytest.raises(EnvCheckFailed, match="goes on differently"):
        check_env(register(StateInTheModule))


def test_state_that_cannot_be_captured_is_named_or_accepted(register):
    config = register(HiddenIterator)
    with pytest.raises(EnvCheckFailed, match=r"HiddenIterator\.hidden.*get_state"):
        check_env(config)
    assert "HiddenIterator.hidden" in check_env(config, must_resume=False).why_inexact


def test_a_reset_without_a_seed_is_found(register):
    with pytest.raises(EnvCheckFailed, match="rule of Gymnasium: .*seed"):
        check_env(register(Unseedable))


def test_an_observation_outside_of_its_space_is_found(register):
    with pytest.raises(EnvCheckFailed, match="rule of Gymnasium"):
        check_env(register(OutOfSpace))


def test_actions_that_no_policy_can_take_are_found(register):
    with pytest.raises((UsageError, EnvCheckFailed)):
        check_env(register(TextActions))
