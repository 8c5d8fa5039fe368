"""Installed in a process of its own, since it changes Gymnasium for everybody in it."""

import subprocess
import sys

import numpy as np

from palaestra.apps.cleanrl.launcher.compat import old_infos

PROGRAM = """
import gymnasium as gym, numpy as np
from palaestra.apps.cleanrl.launcher import compat
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
            episodes.append(int(info["episode"]["l"][0]))
print(len(episodes), sum(episodes) <= steps)
assert np.bool8 is np.bool_
assert gym.wrappers.FrameStack and gym.wrappers.GrayScaleObservation
"""


def test_scripts_find_their_episodes_and_there_is_no_dead_step():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["6", "True"], "")


def test_infos_come_out_one_by_one_and_masked_entries_are_left_out():
    infos = {
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
    found = old_infos(infos, 2)
    assert found["final_info"][1] is None
    assert found["final_info"][0] == {"episode": {"r": np.array([5.0])}}
    assert found["final_observation"] is infos["final_obs"]
