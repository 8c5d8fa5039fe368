"""Installed in a process of its own, since it changes Gymnasium for everybody in it."""

import subprocess
import sys

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
assert compat.LEFT_ALONE in compat.install("envs = gym.wrappers.vector.NormalizeObservation(envs)")
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
