import json

import gymnasium
import numpy as np
import pytest

from palaestra.apps.cleanrl.launcher.easel import Easel
from palaestra.apps.cleanrl.launcher.pose import NoPose, Sitter, has_pose, kind_of, take_pose
from palaestra.envs.headless import prepare_rendering

CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")


@pytest.fixture(autouse=True)
def headless():
    prepare_rendering("rgb_array")


@pytest.mark.parametrize("env_id", CLASSIC)
def test_a_sitter_is_drawn_to_the_last_pixel_like_the_environment_whose_pose_it_strikes(env_id):
    env = gymnasium.make(env_id)
    env.reset(seed=3)
    sitter = Sitter(kind_of(env))
    here, there = Easel(env), Easel(sitter.env)
    for _ in range(3):
        sitter.strike(json.loads(json.dumps(take_pose(env))))
        assert np.array_equal(there.draw(), here.draw())
        env.step(env.action_space.sample())
    env.close()


def test_a_pose_is_exact_and_tells_nothing_that_is_not_plain():
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=3)
    env.unwrapped.state = (np.float32(0.1), 2, np.array([0.3, np.inf]))
    pose = json.loads(json.dumps(take_pose(env)))
    assert "action_space" not in pose
    assert "_np_random" not in pose
    sitter = Sitter(kind_of(env))
    sitter.strike(pose)
    first, second, third = sitter.env.state
    assert (type(first), first, second, third.tolist()) == (np.float32, np.float32(0.1), 2, [0.3, np.inf])
    env.close()


def test_taking_a_pose_leaves_no_trace():
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=3)
    before = {name: id(value) for name, value in vars(env.unwrapped).items()}
    take_pose(env)
    assert {name: id(value) for name, value in vars(env.unwrapped).items()} == before
    env.close()


def test_only_classic_environments_without_a_render_mode_of_their_own_have_one():
    class Mine(gymnasium.Env):
        render_mode = None

    asked = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    plain = gymnasium.make("CartPole-v1")
    assert [has_pose(env) for env in (plain, asked, Mine())] == [True, False, False]
    with pytest.raises(NoPose, match="Mine is not known to be drawn from its attributes alone"):
        Sitter(kind_of(Mine()))
    asked.close()
    plain.close()
