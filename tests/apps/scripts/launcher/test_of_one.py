import gymnasium
import numpy as np

from palaestra.apps.scripts.launcher.of_one import OfOne, first
from palaestra.rendering.offscreen import prepare_rendering


def test_it_is_the_member_of_the_vector_in_everything():
    prepare_rendering("rgb_array")
    one = OfOne(gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array")]))
    single = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    assert np.array_equal(one.reset(seed=5)[0], single.reset(seed=5)[0])
    for action in (np.int64(1), 0, np.int64(1)):
        mine, its = one.step(action), single.step(action)
        assert np.array_equal(mine[0], its[0])
        assert mine[1:4] == its[1:4]
    assert np.array_equal(one.render(), single.render())
    assert one.action_space == single.action_space
    assert one.metadata["render_fps"] == single.metadata["render_fps"]
    one.close()
    single.close()


def test_a_continuous_action_keeps_its_shape():
    one = OfOne(gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1")]))
    one.reset(seed=1)
    assert one.step(np.array([0.5], dtype=np.float32))[0].shape == (3,)
    one.close()


def test_of_dictionaries_each_part_is_the_first():
    assert first({"a": np.array([[1, 2]]), "b": {"c": np.array([7])}})["b"]["c"] == 7
