"""The λ-returns of PQN, against their definition written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from palaestra.algorithms.pqn.returns import lambda_returns

GAMMA = 0.9
rng = np.random.default_rng(5)
REWARDS = rng.normal(size=(6, 3)).astype(np.float32)
NEXT_VALUES = rng.normal(size=(6, 3)).astype(np.float32)
ENDED = np.zeros((6, 3), bool)
ENDED[2, 0] = ENDED[4, 1] = ENDED[5, 2] = True
NEXT_VALUES[2, 0] = 0.0  # terminated; the other two were truncated


def written_out(q_lambda: float) -> np.ndarray:
    returns = np.zeros((6, 3))
    for env in range(3):
        for step in reversed(range(6)):
            following = NEXT_VALUES[step, env]
            if step < 5 and not ENDED[step, env]:
                following = (1 - q_lambda) * following + q_lambda * returns[step + 1, env]
            returns[step, env] = REWARDS[step, env] + GAMMA * following
    return returns


def computed(q_lambda: float) -> np.ndarray:
    tensors = map(torch.from_numpy, (REWARDS, NEXT_VALUES, ENDED))
    return lambda_returns(*tensors, GAMMA, q_lambda).numpy()


@pytest.mark.parametrize("q_lambda", [0.0, 0.65, 1.0])
def test_returns_match_the_recursion_written_out(q_lambda):
    np.testing.assert_allclose(computed(q_lambda), written_out(q_lambda), rtol=1e-5, atol=1e-6)


def test_lambda_zero_is_the_one_step_target():
    np.testing.assert_allclose(computed(0.0), REWARDS + GAMMA * NEXT_VALUES, rtol=1e-6)


def test_lambda_one_is_the_discounted_sum_to_the_end_of_the_episode():
    expected = sum(GAMMA**step * REWARDS[step, 0] for step in range(3))  # ends at step 2 without a value
    assert computed(1.0)[0, 0] == pytest.approx(expected, rel=1e-5)


def test_a_truncated_episode_bootstraps_and_takes_nothing_from_the_next_one():
    changed = REWARDS.copy()
    changed[5, 1] += 100  # the episode after the truncation at step 4
    returns = lambda_returns(*map(torch.from_numpy, (changed, NEXT_VALUES, ENDED)), GAMMA, 0.65).numpy()
    np.testing.assert_array_equal(returns[:5, 1], computed(0.65)[:5, 1])
    assert returns[4, 1] == pytest.approx(REWARDS[4, 1] + GAMMA * NEXT_VALUES[4, 1], rel=1e-5)
