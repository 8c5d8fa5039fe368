"""Installed in a process of its own, since it changes torch for everybody in it."""

import subprocess
import sys

import numpy as np
import pytest

from palaestra.apps.scripts.launcher.one_number import OneNumber, as_one_number, is_needed

# As rainbow_atari.py: rewards and ends of one environment and the action of a network as elements of a buffer.
PROGRAM = """
import gymnasium as gym, numpy as np, torch
from palaestra.apps.scripts.launcher import compat
compat.install()
envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")])
envs.reset(seed=1)
actions = torch.tensor([[0.1, 0.9]]).argmax(1).cpu().numpy()
_, rewards, terminated, truncated, _ = envs.step(actions)
kept = np.zeros(3, np.int64), np.zeros(3, np.float32), np.zeros(3, np.bool_)
kept[0][1], kept[1][1], kept[2][1] = actions, 0.0 + 0.5 * rewards, terminated
print(kept[0][1], kept[1][1], kept[2][1], float(rewards), int(truncated))
assert torch.from_numpy(actions).tolist() == [1]
assert type(torch.ones(2).numpy()) is np.ndarray
"""


def test_a_script_of_one_environment_puts_what_it_gets_into_elements_of_arrays():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["1", "0.5", "False", "1.0", "0"], "")


@pytest.mark.skipif(not is_needed(), reason="this NumPy still takes arrays of one number itself")
def test_without_it_numpy_refuses():
    with pytest.raises(ValueError, match="setting an array element with a sequence"):
        np.zeros(3)[1] = np.ones(1)


def test_only_arrays_of_one_number_are_changed():
    assert isinstance(as_one_number(np.ones((1, 1))), OneNumber)
    for other in (np.ones(2), np.ones(0), np.array(1.0)):
        assert as_one_number(other) is other


def test_several_numbers_are_still_refused():
    with pytest.raises(ValueError, match="array of size 1"):
        float(np.array([1.0, 2.0]).view(OneNumber))
