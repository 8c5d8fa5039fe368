import gymnasium
import numpy as np
import pytest

from palaestra.rendering import mujoco_state

pytest.importorskip("mujoco")


@pytest.fixture
def envs():
    made = [gymnasium.make("InvertedPendulum-v5") for _ in range(2)]
    for seed, env in enumerate(made):
        env.reset(seed=seed)
        env.step(env.action_space.sample())
    yield [env.unwrapped for env in made]
    for env in made:
        env.close()


def test_what_rendering_reads_is_the_same_after_a_state_was_written(envs):
    """Also the fields that a step leaves one substep behind the position."""
    source, target = (env.data for env in envs)
    assert not np.array_equal(source.geom_xpos, target.geom_xpos)
    mujoco_state.restore(target, mujoco_state.capture(source))
    for name in ("qpos", "qvel", *mujoco_state.RENDERED_FIELDS):
        assert np.array_equal(getattr(source, name), getattr(target, name)), name


def test_models_with_different_values_have_different_digests(envs):
    first, second = (env.model for env in envs)
    assert mujoco_state.model_digest(first) == mujoco_state.model_digest(second)
    first.geom_size[0] += 1
    assert mujoco_state.model_digest(first) != mujoco_state.model_digest(second)


def test_simulations_and_models_are_known_by_their_types(envs):
    data, model = envs[0].data, envs[0].model
    assert mujoco_state.is_simulation(data)
    assert mujoco_state.is_model(model)
    assert not mujoco_state.is_simulation(model)
    assert not mujoco_state.is_model(np.zeros(1))


def test_an_environment_without_mujoco_has_no_camera_to_move():
    env = gymnasium.make("CartPole-v1")
    camera = mujoco_state.FreeCamera(env)
    assert not camera.has_movable_camera
    camera.aim(0)
    camera.remember(0)
    env.close()
