"""Where a step is, read from the stack of whoever is in the middle of it."""

import sys

import gymnasium
import numpy as np
import pytest

from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.envs.vector.step_in_progress import find_step


class Asking(gymnasium.Env):
    """Calls `ask` in the middle of every step and reset."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(5)

    def __init__(self, ask) -> None:
        self.ask = ask

    def reset(self, *, seed=None, options=None):
        self.ask()
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.ask()
        return np.zeros(1, np.float32), 0.0, False, False, {}


@pytest.fixture
def found():
    """What was found in two environments: in their resets, then in their second step."""
    observed = []
    envs = InProcessEnvs(lambda: Asking(lambda: observed.append(find_step(sys._getframe()))), 2, first_index=4)
    out = np.zeros((2, 1), np.float32)
    envs.reset([10, 20], out)
    for _ in range(2):
        envs.step(np.array([3, 1]), out)
    return observed


def test_outside_of_any_step_there_is_none():
    assert find_step(sys._getframe()) is None
    assert find_step(None) is None


def test_environment_seed_step_and_action_are_known(found):
    assert found[0].where == "environment 4 (seed 10), where it begins an episode"
    assert found[-1].where == "environment 5 (seed 20), at step 2 of its episode, with action 1"


def test_a_step_is_the_same_as_itself_and_as_no_other(found):
    first, second, third, fourth = found[2:]
    assert first.is_same_as(first)
    assert not first.is_same_as(second)  # another environment of the same call
    assert not first.is_same_as(third)  # the same environment, a call later
    assert not fourth.is_same_as(None)
