"""Installed in a process of its own, since it changes Gymnasium for everybody in it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from palaestra.apps.scripts.launcher.compat import (
    ScalarArray,
    as_scalar_array,
    numpy_refuses_arrays,
    old_infos,
    targets_gymnasium_1,
)

PROGRAM = """
import gymnasium as gym, numpy as np
from palaestra.apps.scripts.launcher import compat
done = compat.install()
assert len(done) >= 4, done
def make():
    env = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
    return gym.wrappers.TransformObservation(env, lambda observation: observation * 0 + 7)
envs = gym.vector.SyncVectorEnv([make, make])
observations, _ = envs.reset(seed=1)
assert (observations == 7).all()
steps, episodes = 0, []
while len(episodes) < 6:
    _, rewards, terminated, truncated, infos = envs.step(np.array([0, 1]))
    steps += 2
    assert (rewards == 1).all()  # a dead step would bring 0
    for index, info in enumerate(infos.get("final_info", [])):
        if info:
            assert terminated[index]
            assert info["episode"]["r"].shape == (1,)
            assert infos["final_observation"][index] is not None
            episodes.append(int(info["episode"]["l"]))
print(len(episodes), sum(episodes) <= steps)
assert np.bool8 is np.bool_
assert gym.wrappers.FrameStack and gym.wrappers.GrayScaleObservation
"""


def test_scripts_find_their_episodes_and_there_is_no_dead_step():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["6", "True"], "")


NEW_PROGRAM = """
import gymnasium as gym, numpy as np
from palaestra.apps.scripts.launcher import compat
vector = gym.vector.SyncVectorEnv
assert compat.VECTOR_ENVS_UNCHANGED in compat.install("envs = gym.wrappers.vector.NormalizeObservation(envs)")
assert gym.vector.SyncVectorEnv is vector
envs = gym.wrappers.vector.NormalizeObservation(vector([lambda: gym.make("CartPole-v1")]))
print(envs.reset(seed=1)[0].shape)
"""


def test_a_script_for_gymnasium_1_has_its_vector_environments_as_they_are():
    done = subprocess.run([sys.executable, "-c", NEW_PROGRAM], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["(1,", "4)"], "")


JAX_PROGRAM = """
import jax, numpy
def clip(array, /, min=None, max=None):
    return numpy.clip(array, min, max)
jax.numpy.clip = clip
from palaestra.apps.scripts.launcher import compat
compat.install("jnp.clip(x, 0, 1)")
assert jax.numpy.clip is clip
assert "jax.numpy.clip takes a_min and a_max" in compat.install("y = jnp.clip(x, a_min=0, a_max=2)")
print(jax.numpy.clip(numpy.arange(4), a_min=1, a_max=2), jax.numpy.clip(numpy.arange(4), 1, 2))
"""


def test_a_jax_script_clips_by_the_names_that_jax_had(jax_stand_in):
    done = subprocess.run([sys.executable, "-c", JAX_PROGRAM], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[1 1 2 2] [1 1 2 2]", "")


@pytest.mark.parametrize(
    "text",
    [
        "envs = gym.vector.SyncVectorEnv(makers, autoreset_mode=SAME)",
        "mode = gym.vector.AutoresetMode.NEXT_STEP",
        "envs = gym.wrappers.vector.NormalizeObservation(envs)",
        "from gymnasium.wrappers.vector import RecordEpisodeStatistics",
        "from gymnasium.wrappers import vector",
        "if infos['_episode'][i]: print(infos['episode']['r'][i])",
        'infos["final_info"]["_episode"]; AutoresetMode.SAME_STEP',
    ],
)
def test_names_that_the_old_one_did_not_have_report_the_new_one(text):
    assert targets_gymnasium_1(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "for info in infos['final_info']: print(info['episode'])",
        "real_next_obs[idx] = infos['final_observation'][idx]",
        "infos['final_info'][0]['_episode']",
        "env = gym.wrappers.RecordEpisodeStatistics(env); mean_episode = 1",
    ],
)
def test_everything_else_is_taken_for_old(text):
    assert not targets_gymnasium_1(text)


@pytest.fixture
def infos():
    """As Gymnasium 1 tells them when the first of two environments has come to an end."""
    return {
        "final_obs": np.array([1, 2]),
        "_final_obs": np.array([True, False]),
        "final_info": {
            "episode": {"r": np.array([5.0, 0.0]), "_r": np.array([True, False])},
            "_episode": np.array([True, False]),
            "lives": np.array([0, 3]),
            "_lives": np.array([False, True]),
        },
        "_final_info": np.array([True, False]),
    }


def test_infos_come_out_one_by_one_and_masked_entries_are_left_out(infos):
    found = old_infos(infos, 2)
    assert found["final_info"][1] is None
    assert found["final_info"][0] == {"episode": {"r": np.array([5.0])}}
    assert [info is not None for info in found["final_info"]] == [True, False]
    assert found["final_observation"] is infos["final_obs"]


def test_who_asks_as_gymnasium_1_has_it_is_replied_to_too(infos):
    final = old_infos(infos, 2)["final_info"]
    assert final["_episode"].tolist() == [True, False]
    assert final["episode"]["r"][0] == 5.0
    assert "episode" in final
    assert "score" not in final


def test_a_return_is_an_array_of_one_number_and_a_number(infos):
    total = old_infos(infos, 2)["final_info"][0]["episode"]["r"]
    assert (total.shape, str(total)) == ((1,), "[5.]")
    assert (float(total), int(total)) == (5.0, 5)
    assert np.mean([total, total]) == 5.0
    assert torch.as_tensor(total).tolist() == [5.0]


# As rainbow_atari.py: rewards and ends of one environment and the action of a network as elements of a buffer.
SCALAR_PROGRAM = """
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
    done = subprocess.run([sys.executable, "-c", SCALAR_PROGRAM], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["1", "0.5", "False", "1.0", "0"], "")


@pytest.mark.skipif(not numpy_refuses_arrays(), reason="this NumPy still takes arrays of one number itself")
def test_without_it_numpy_refuses():
    with pytest.raises(ValueError, match="setting an array element with a sequence"):
        np.zeros(3)[1] = np.ones(1)


def test_only_arrays_of_one_number_are_changed():
    assert isinstance(as_scalar_array(np.ones((1, 1))), ScalarArray)
    for other in (np.ones(2), np.ones(0), np.array(1.0)):
        assert as_scalar_array(other) is other


def test_several_numbers_are_still_refused():
    with pytest.raises(ValueError, match="array of size 1"):
        float(np.array([1.0, 2.0]).view(ScalarArray))
