"""What a copy renders is what the environment itself would render, pixel by pixel."""

import gymnasium
import numpy as np
import pytest

from palaestra.rendering import mujoco_state
from palaestra.rendering.env_copy import CopyDiffers, CopyPool
from palaestra.rendering.env_state import LARGEST_VALUE, StateEncoder, recipe_of
from palaestra.rendering.messages import pack, unpack
from palaestra.rendering.offscreen import OffscreenRenderer, prepare_rendering

pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # of Box2D, when it is imported
RENDERED = [
    *("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0"),
    *("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"),
    *("LunarLander-v3", "BipedalWalker-v3"),
]


def sent(encoder):
    """As it arrives on the other side."""
    return unpack(*pack(encoder.encode()))


def make(env_id, seed):
    prepare_rendering("rgb_array")
    env = gymnasium.make(env_id)
    mujoco_state.reduce_quality(env)  # as the copies do
    env.reset(seed=seed)
    env.action_space.seed(seed)
    return env


def play(env, steps):
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()


@pytest.mark.parametrize("env_id", RENDERED)
def test_the_frames_of_a_copy_are_those_of_the_environment(env_id):
    envs = [make(env_id, seed) for seed in (1, 2)]
    encoders = [StateEncoder(env, recipe_of(env)) for env in envs]
    renderers = [OffscreenRenderer(env) for env in envs]
    pool = CopyPool()
    for steps in (0, 3, 60):  # the last goes through an end of most of them
        for slot, env in enumerate(envs):
            play(env, steps)
            pool.update(slot, sent(encoders[slot]))
            assert np.array_equal(pool.render(slot), renderers[slot].render()), f"{env_id} after {steps} steps"
    for env in envs:
        env.close()


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["Walker2d-v5", "Reacher-v5"])
def test_simulations_share_one_copy_and_keep_their_own_camera(env_id):
    """Reacher's camera stays where the first frame has put it, which differs from copy to copy."""
    pytest.importorskip("mujoco")
    envs = [make(env_id, seed) for seed in (1, 2, 3)]
    encoders = [StateEncoder(env, recipe_of(env)) for env in envs]
    renderers = [OffscreenRenderer(env) for env in envs]
    pool = CopyPool()
    for number in range(3):
        for slot, env in enumerate(envs):
            play(env, 5)
            pool.update(slot, sent(encoders[slot]))
            frames = pool.render(slot), renderers[slot].render()
            mujoco_state.disable_shadows(env)
            assert number == 0 or np.array_equal(*frames)  # one renderer has its first frame, with shadows, once
    assert len({id(copy) for _, copy in pool._copies.values()}) == 1
    for env in envs:
        env.close()


@pytest.mark.slow
def test_the_render_quality_is_set_once_and_stays_while_states_come_and_go(monkeypatch):
    mujoco = pytest.importorskip("mujoco")
    disabled = []
    disable_shadows = mujoco_state.disable_shadows
    monkeypatch.setattr(mujoco_state, "disable_shadows", lambda env: disabled.append(disable_shadows(env)))
    env = make("InvertedPendulum-v5", 1)
    encoder, pool = StateEncoder(env, recipe_of(env)), CopyPool()
    for steps in (0, 3, 60):  # the last goes through an end, after which all attributes are set anew
        play(env, steps)
        pool.update(0, sent(encoder))
        pool.render(0)
    copy = pool._copies[0][1].env.unwrapped
    scene, flags = copy.mujoco_renderer.viewer.scn, mujoco.mjtRndFlag
    assert (scene.flags[flags.mjRND_SHADOW], scene.flags[flags.mjRND_REFLECTION]) == (0, 0)
    quality = copy.model.vis.quality
    assert (quality.offsamples, quality.shadowsize) == (0, mujoco_state.SHADOW_SIZE)
    assert len(disabled) == 1
    env.close()


def test_a_model_that_was_changed_after_it_was_made_is_noticed():
    pytest.importorskip("mujoco")
    env = make("InvertedPendulum-v5", 1)
    env.unwrapped.model.geom_size[:] *= 2
    with pytest.raises(CopyDiffers, match="MuJoCo model was changed"):
        CopyPool().update(0, sent(StateEncoder(env, recipe_of(env))))
    env.close()


def test_a_large_constant_must_be_the_same_in_a_copy():
    env = make("CartPole-v1", 1)
    env.unwrapped.table = list(range(LARGEST_VALUE))
    with pytest.raises(CopyDiffers, match="table is too large to be sent"):
        CopyPool().update(0, sent(StateEncoder(env, recipe_of(env))))
    env.close()


def test_a_change_of_an_environment_that_was_never_described_is_ignored():
    pool = CopyPool()
    pool.update(0, {"set": {"x": 1}})
    assert not pool.knows(0)


def test_another_environment_in_the_same_slot_takes_its_place():
    first, second = make("CartPole-v1", 1), make("Pendulum-v1", 1)
    pool = CopyPool()
    for env in (first, second):
        pool.update(0, sent(StateEncoder(env, recipe_of(env))))
        assert np.array_equal(pool.render(0), OffscreenRenderer(env).render())
        env.close()


def test_a_copy_can_also_be_made_by_a_function_of_ours():
    env = make("CartPole-v1", 1)
    recipe = {"factory": "palaestra.envs.make:make_copy", "arguments": {"config": {"id": "CartPole-v1"}}}
    pool = CopyPool()
    pool.update(0, sent(StateEncoder(env, recipe)))
    assert np.array_equal(pool.render(0), OffscreenRenderer(env).render())
    env.close()
