"""Iterations of off-policy algorithms in the native engine: what it is told of every step."""

from __future__ import annotations

import numpy as np
import pytest

from palaestra.algorithms.base import Progress
from palaestra.algorithms.off_policy import updates_due
from palaestra.algorithms.schedules import value_at
from palaestra.config.schedule import Schedule
from palaestra.core.errors import RunFailed
from palaestra.training.engines import native_engine
from palaestra.training.engines.native_off_policy import choose_stepping, optimizer_capture, values_at
from tests.training.engines.off_policy import advance, begin

pytestmark = pytest.mark.skipif(native_engine.native_learner is None, reason="the native engine is not compiled")

DQN = {
    "env_count": 3,
    "steps_per_iteration": 60,
    "buffer_size": 90,
    "learning_starts": 40,
    "train_interval": 7,
    "target_interval": 11,
    "batch_size": 8,
}


def dqn(env="CartPole-v1", **settings):
    return begin("native", algorithm="dqn", env=env, total_steps=400, dqn={**DQN, **settings}).algorithm


def test_every_step_is_told_what_the_step_by_step_rules_say():
    algorithm = dqn(learning_rate={"kind": "cosine", "start": 1e-3, "end": 1e-4})
    schedule = algorithm._schedule(Progress(0, 0, 400), 20)
    for row in range(20):
        before, now = Progress(0, 3 * row, 400), Progress(0, 3 * row + 3, 400)
        assert schedule["updates_due"][row] == updates_due(algorithm.settings, before.env_steps, now.env_steps)
        assert schedule["targets_due"][row] == now.env_steps // 11 - before.env_steps // 11
        assert schedule["exploration"][row] == algorithm.epsilon(before)
        assert (schedule["learning_rates"][row], schedule["second_rates"][row]) == algorithm.rates(now)
    assert not schedule["is_random"].any()


def test_actions_are_random_until_learning_starts():
    settings = {"env_count": 2, "steps_per_iteration": 20, "learning_starts": 7, "buffer_size": 300}
    algorithm = begin("native", algorithm="sac", env="Pendulum-v1", sac=settings).algorithm
    assert algorithm._schedule(Progress(0, 0, 400), 10)["is_random"].tolist() == [True] * 4 + [False] * 6


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(kind="constant", start=0.3, end=0.3),
        Schedule(kind="linear", start=1.0, end=0.0),
        Schedule(kind="exponential", start=1.0, end=0.01),
    ],
)
def test_schedules_of_many_steps_are_those_of_each(schedule):
    fractions = np.array([0.0, 0.4, 1.0, 1.5])
    assert values_at(schedule, fractions).tolist() == [value_at(schedule, fraction) for fraction in fractions]


def test_the_engine_steps_what_it_knows_and_says_why_not():
    inside, where = choose_stepping(dqn().envs, native_engine.native_learner)
    assert (where, inside is not None) == ("inside", True)
    inside, where = choose_stepping(dqn("palaestra/Corridor-v0").envs, native_engine.native_learner)
    assert (where, inside) == ("in Python: environments of class Corridor", None)


def test_environments_in_python_are_where_the_engine_left_them():
    state = begin("native", algorithm="dqn", env="CartPole-v1", dqn=DQN)
    advance(state, 1)
    state.algorithm.export_env_state()
    states = np.array([env.unwrapped.state for env in state.envs.envs], np.float32)
    np.testing.assert_array_equal(states, state.algorithm.buffer.current)


def test_a_category_outside_the_space_is_an_error_of_the_environment():
    algorithm = dqn("palaestra/Corridor-v0", exploration={"start": 0.0, "end": 0.0, "fraction": 1.0})
    algorithm.learner.pack()
    algorithm.buffer.current[0] = 99
    with pytest.raises(RunFailed, match="observation space"):
        algorithm.act(Progress(0, 0, 400))


def test_adams_memory_is_captured_by_its_names_and_copied():
    memory = {name: np.ones(2, np.float32) for name in ("values", "gradient", "mean", "spread", "step_count")}
    captured = optimizer_capture(memory)
    assert list(captured) == ["exp_avg", "exp_avg_sq", "step_count"]
    assert not np.shares_memory(captured["exp_avg"], memory["mean"])
