import copy
import math

import numpy as np
import pytest

from palaestra.algorithms.ppo.torch_ppo import TorchPpo
from palaestra.config.train import TrainConfig
from palaestra.training.engines import native_engine
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

CONFIG = TrainConfig(ppo={"env_count": 2, "horizon": 60, "minibatch_size": 60})


def with_torch(state, *description):
    """The same training, computed by torch, without stepping environments natively."""
    ppo = state.algorithm
    return TorchPpo(ppo.config, ppo.envs, ppo.buffer, ppo.group, ppo.tensors, *description)


def test_an_iteration_learns_and_leaves_the_buffer_where_the_next_rollout_starts():
    state = new_training_state(CONFIG)
    before = state.algorithm.tensors.optimizer.flat.clone()
    done = with_torch(state).iterate(state.progress)
    assert not bool((state.algorithm.tensors.optimizer.flat == before).all())
    assert done.update.minibatches == 8
    assert done.episodes
    assert done.times.rollout > 0
    assert done.env_steps == 120
    assert np.array_equal(state.algorithm.buffer.rows[0], state.algorithm.buffer.rows[-1])
    assert state.iteration == 0  # counted by the trainer


def test_without_a_stepper_the_environments_are_always_up_to_date():
    state = new_training_state(CONFIG)
    ppo = with_torch(state)
    ppo.iterate(state.progress)
    standing = [state.envs.episode_progress(index) for index in range(2)]
    ppo.export_env_state()
    assert [state.envs.episode_progress(index) for index in range(2)] == standing


def test_the_description_says_why_it_was_chosen():
    state = new_training_state(CONFIG)
    assert with_torch(state).description == "torch"
    assert with_torch(state, "torch; native is too new").description == "torch; native is too new"


SINES = np.linspace(-7, 7, 10_001)
needs_exact = pytest.mark.skipif(
    native_engine.native_learner is None or not np.array_equal(np.sin(SINES), [math.sin(x) for x in SINES]),
    reason="built without a C++ compiler, or NumPy's sines are not the C library's",
)


def state_of(env, **other):
    ppo = {"env_count": 3, "horizon": 40, "minibatch_size": 60}
    return new_training_state(TrainConfig(engine="torch", total_steps=10**6, env=env, ppo=ppo, **other))


def facts(state, iterations):
    reports = [report for _, report in zip(range(iterations), train(state), strict=False)]
    return [
        (report.update, report.episodes, report.metrics) for report in reports
    ], state.algorithm.tensors.optimizer.flat.tolist()


@needs_exact
@pytest.mark.parametrize(
    "env", ["CartPole-v1", {"id": "CartPole-v1", "max_episode_steps": 7}, "Pendulum-v1", "MountainCar-v0"], ids=str
)
def test_stepping_worlds_inside_changes_no_bit_of_a_training(env):
    inside, outside = state_of(env), state_of(env)
    assert inside.algorithm.native_envs is not None
    outside.algorithm = with_torch(outside)
    assert facts(inside, 5) == facts(outside, 5)


@needs_exact
def test_a_training_whose_worlds_are_inside_is_captured_and_restored_bit_for_bit():
    state = state_of("CartPole-v1")
    facts(state, 2)
    model, captured = copy.deepcopy(state.algorithm.policy().state_dict()), copy.deepcopy(state.capture())
    expected = facts(state, 3)
    other = state_of("CartPole-v1", seed=5)
    facts(other, 1)  # its worlds stand elsewhere
    other.algorithm.policy().load_state_dict(model)
    other.restore(captured)
    assert facts(other, 3) == expected


def test_worlds_that_are_not_gymnasiums_to_the_last_bit_stay_with_python():
    assert state_of("Acrobot-v1").algorithm.native_envs is None
    assert state_of("MountainCarContinuous-v0").algorithm.native_envs is None
