"""Tasks so small that whatever learns at all solves them; steps and seeds are fixed, no clock is looked at.

Budgets leave room: all of these were solved with every seed from 1 to 5.
"""

import pytest
import torch

from palaestra.testing.envs import OPTIMAL_RETURNS

SEEDS = [1, pytest.param(2, marks=pytest.mark.full)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("env", ["palaestra/Identity-v0", "palaestra/IdentityMultiDiscrete-v0"])
def test_it_learns_to_say_what_it_sees(learn, env, seed):
    _, mean = learn(env, 4096, seed)
    assert mean == OPTIMAL_RETURNS[env]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_it_learns_to_say_a_number_that_it_sees(learn, seed):
    """Saying 0 always would cost 16 / 3; within 0.4 is within 0.16 of each number."""
    _, mean = learn("palaestra/IdentityContinuous-v0", 20_480, seed)
    assert mean > -0.4


@pytest.mark.parametrize("seed", SEEDS)
def test_it_learns_which_arm_pays_best(learn, seed):
    """Judged by what it pulls, not by its luck."""
    agent, _ = learn("palaestra/Bandit-v0", 4096, seed)
    with torch.no_grad():
        chances = agent(torch.zeros(1, 1, 1), {}, None).distribution.log_probs.exp()
    assert int(chances.argmax()) == 2
    assert float(chances.max()) > 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_it_learns_to_walk_to_the_end_of_a_corridor(learn, seed):
    _, mean = learn("palaestra/Corridor-v0", 8192, seed, entropy_coefficient=0.01)
    assert mean == pytest.approx(OPTIMAL_RETURNS["palaestra/Corridor-v0"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_time_limit_does_not_lower_the_value_of_what_goes_on(learn, seed):
    """Reward 1 for ever at discount 0.9 is worth 10; who takes the cut after 10 steps for an end finds about 4."""
    agent, _ = learn("palaestra/ConstantReward-v0", 16_384, seed, clip_value_loss=False)
    with torch.no_grad():
        value = float(agent(torch.ones(1, 1, 1), {}, None).value)
    assert value == pytest.approx(1 / (1 - 0.9), rel=0.03)
