"""The compiled loop is a fair opponent only while it is PPO in CartPole. Runs where JAX can be imported:

PYTHONPATH=.peers/jax/lib/python3.11/site-packages python -m pytest -n 0 tests/benchmarks/test_peers_jax_loop.py
"""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from peers.settings import CLEANRL

jax = pytest.importorskip("jax")

from peers import jax_loop  # noqa: E402 - wants JAX

TINY = replace(CLEANRL, env_count=3, horizon=40, minibatch_size=60, total_steps=1200)


def test_a_step_is_gymnasiums_to_rounding():
    env = gymnasium.make("CartPole-v1").unwrapped
    rng = np.random.default_rng(1)
    for _ in range(20):
        env.reset()
        env.state = rng.uniform(-0.2, 0.2, 4)
        before, action = np.asarray(env.state, np.float32), int(rng.integers(2))
        expected, *_ = env.step(action)
        found = jax_loop.move(before[None], np.array([action]))
        np.testing.assert_allclose(np.asarray(found)[0], expected, rtol=1e-5, atol=1e-6)


def test_episodes_end_where_gymnasiums_do():
    assert gymnasium.spec("CartPole-v1").max_episode_steps == jax_loop.STEP_LIMIT
    env = gymnasium.make("CartPole-v1").unwrapped
    assert (env.x_threshold, env.theta_threshold_radians) == (jax_loop.X_LIMIT, pytest.approx(jax_loop.ANGLE_LIMIT))


def test_advantages_are_the_discounted_sum_of_surprises_until_the_episode_ends():
    rng = np.random.default_rng(1)
    values, last = rng.normal(size=(6, 2)).astype(np.float32), rng.normal(size=2).astype(np.float32)
    ended = np.zeros((6, 2), bool)
    ended[2, 0] = True
    nothing = np.zeros((6, 2), np.float32)
    rollout = jax_loop.Step(nothing, nothing, nothing, values, ended, nothing)
    found = np.asarray(jax_loop.judge(CLEANRL, rollout, last))
    for env in range(2):
        for start in range(6):
            expected, weight = 0.0, 1.0
            for step in range(start, 6):
                after = 0.0 if ended[step, env] else (values[step + 1, env] if step < 5 else last[env])
                expected += weight * (1.0 + 0.99 * after - values[step, env])
                weight *= 0.99 * 0.95
                if ended[step, env]:
                    break
            assert found[start, env] == pytest.approx(expected, abs=1e-5)


def test_updates_move_the_weights_and_count_whole_episodes():
    carry = jax_loop.beginning(TINY, seed=1)
    after, lengths = jax.jit(lambda carry: jax_loop.several_updates(TINY, 10, carry))(carry)
    assert lengths.shape == (10, 40, 3)
    assert int(after.count) == 10 * 4 * 2
    assert int(lengths.sum()) + int(after.ages.sum()) == 10 * 40 * 3  # every step belongs to one episode
    moved = jax.tree.map(lambda old, new: bool((old != new).any()), carry.weights, after.weights)
    assert all(jax.tree.leaves(moved))
