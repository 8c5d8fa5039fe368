import copy
import math

import numpy as np
import pytest

from palaestra.config.train import TrainConfig
from palaestra.training.engines import native_engine
from palaestra.training.engines.torch_engine import TORCH, TorchEngine
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

CONFIG = TrainConfig(ppo={"env_count": 2, "horizon": 60, "minibatch_size": 60})


def test_an_iteration_learns_and_leaves_the_tape_where_playing_goes_on():
    state = new_training_state(CONFIG)
    before = state.optimizer.flat.clone()
    done = TORCH.iterate(state)
    assert not bool((state.optimizer.flat == before).all())
    assert done.update.minibatches == 8
    assert done.episodes
    assert done.times.rollout > 0
    assert np.array_equal(state.tape.rows[0], state.tape.rows[-1])
    assert state.iteration == 0  # counted by the trainer


def test_it_keeps_nothing_to_itself():
    state = new_training_state(CONFIG)
    TORCH.iterate(state)
    standing = [state.envs.standing(index) for index in range(2)]
    TORCH.export_env_state()
    TORCH.invalidate()
    assert [state.envs.standing(index) for index in range(2)] == standing


def test_it_says_why_it_was_taken_when_another_was_looked_at():
    assert TORCH.description == "torch"
    assert TorchEngine("torch; native is too new").description == "torch; native is too new"


SINES = np.linspace(-7, 7, 10_001)
needs_exact = pytest.mark.skipif(
    native_engine.learner is None or not np.array_equal(np.sin(SINES), [math.sin(x) for x in SINES]),
    reason="no compiler has been here, or NumPy's sines are not the C library's",
)


def state_of(env, **other):
    ppo = {"env_count": 3, "horizon": 40, "minibatch_size": 60}
    return new_training_state(TrainConfig(engine="torch", total_steps=10**6, env=env, ppo=ppo, **other))


def facts(state, iterations):
    reports = [report for _, report in zip(range(iterations), train(state), strict=False)]
    return [(report.update, report.episodes, report.metrics) for report in reports], state.optimizer.flat.tolist()


@needs_exact
@pytest.mark.parametrize(
    "env", ["CartPole-v1", {"id": "CartPole-v1", "max_episode_steps": 7}, "Pendulum-v1", "MountainCar-v0"], ids=str
)
def test_stepping_worlds_inside_changes_no_bit_of_a_training(env):
    inside, outside = state_of(env), state_of(env)
    assert inside.engine._worlds is not None
    outside.engine = TorchEngine()
    assert facts(inside, 5) == facts(outside, 5)


@needs_exact
def test_a_training_whose_worlds_are_inside_is_captured_and_restored_bit_for_bit():
    state = state_of("CartPole-v1")
    facts(state, 2)
    model, captured = copy.deepcopy(state.agent.state_dict()), copy.deepcopy(state.capture())
    expected = facts(state, 3)
    other = state_of("CartPole-v1", seed=5)
    facts(other, 1)  # its worlds stand elsewhere
    other.agent.load_state_dict(model)
    other.restore(captured)
    assert facts(other, 3) == expected


def test_worlds_that_are_not_gymnasiums_to_the_last_bit_stay_with_python():
    assert state_of("Acrobot-v1").engine._worlds is None
    assert state_of("MountainCarContinuous-v0").engine._worlds is None
