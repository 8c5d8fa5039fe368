from __future__ import annotations

import signal

import gymnasium
import numpy as np
import pytest

from palaestra.apps.scripts.launcher.observer import Observer, Stopped
from palaestra.apps.scripts.launcher.probe import Probe
from palaestra.apps.scripts.launcher.vector import SingleEnv, first, observed
from palaestra.rendering.offscreen import prepare_rendering


@pytest.fixture
def observer():
    return Observer(lambda *_: None, 0)


def test_each_member_keeps_its_number_also_in_a_second_vector(observer):
    def make():
        return Probe(gymnasium.make("CartPole-v1"), observer, observer.take_index())

    vector = observed(gymnasium.vector.SyncVectorEnv, observer)
    first, second = vector([make, make]), vector([make])
    assert [env.index for env in (*first.envs, *second.envs)] == [0, 1, 2]
    first.close()
    second.close()


def test_steps_are_counted_once_by_the_process_that_takes_them(observer):
    def make():
        return Probe(gymnasium.make("CartPole-v1"), observer, observer.take_index())

    together = observed(gymnasium.vector.SyncVectorEnv, observer)([make, make])
    alone = make()
    together.reset(seed=1)
    alone.reset(seed=1)
    for _ in range(3):
        together.step(np.array([0, 1]))
        alone.step(0)
    assert observer.steps == 3 * 2 + 3
    assert [env.steps for env in (*together.envs, alone)] == [3, 3, 3]
    together.close()
    alone.close()


def test_after_a_vector_that_could_not_be_made_single_environments_are_counted_again(observer):
    def fail():
        raise ValueError("no such world")

    with pytest.raises(ValueError, match="no such world"):
        observed(gymnasium.vector.SyncVectorEnv, observer)([fail])
    alone = Probe(gymnasium.make("CartPole-v1"), observer, observer.take_index())
    alone.reset(seed=1)
    alone.step(0)
    assert observer.steps == 1
    alone.close()


def test_a_stop_is_seen_after_a_step_although_the_members_do_not_see_it(observer):
    vector = observed(gymnasium.vector.SyncVectorEnv, observer)([lambda: gymnasium.make("CartPole-v1")])
    vector.reset(seed=1)
    vector.step(np.array([0]))
    observer.stop_signal = signal.SIGTERM
    with pytest.raises(Stopped):
        vector.step(np.array([0]))
    vector.close()


def test_it_is_the_member_of_the_vector_in_everything():
    prepare_rendering("rgb_array")
    one = SingleEnv(gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array")]))
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
    one = SingleEnv(gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1")]))
    one.reset(seed=1)
    assert one.step(np.array([0.5], dtype=np.float32))[0].shape == (3,)
    one.close()


def test_of_dictionaries_each_part_is_the_first():
    assert first({"a": np.array([[1, 2]]), "b": {"c": np.array([7])}})["b"]["c"] == 7
