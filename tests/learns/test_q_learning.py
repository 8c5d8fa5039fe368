"""DQN and PQN on tasks so small that whatever learns at all solves them, and on CartPole."""

import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.testing.envs import OPTIMAL_RETURNS

SEEDS = [1, pytest.param(2, marks=pytest.mark.full)]
SMALL = {"graph": "mlp", "settings": {"hidden": [32, 32]}}
SETTINGS = {
    "dqn": {
        "buffer_size": 2000,
        "learning_starts": 200,
        "train_interval": 2,
        "batch_size": 32,
        "target_interval": 50,
        "learning_rate": 2e-3,
        "gamma": 0.9,
    },
    "pqn": {
        "env_count": 8,
        "horizon": 16,
        "minibatch_size": 32,
        "learning_rate": 3e-3,
        "gamma": 0.9,
        "q_lambda": 0.3,
    },
}
STEPS = {"dqn": 3000, "pqn": 8000}
ALGORITHMS = [
    pytest.param("dqn", {}, id="dqn"),
    pytest.param(
        "dqn",
        {"double": True, "dueling": True, "n_step": 3, "loss": "huber", "prioritized": {"enabled": True}},
        id="dqn with all options",
        marks=pytest.mark.slow,
    ),
    pytest.param("pqn", {}, id="pqn"),
]


def config_of(algorithm, extra, env, total_steps, seed) -> TrainConfig:
    settings = {algorithm: {**SETTINGS[algorithm], **extra}}
    return TrainConfig(
        algorithm=algorithm, engine="torch", total_steps=total_steps, seed=seed, env=env, policy=SMALL, **settings
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("algorithm", "extra"), ALGORITHMS)
def test_it_learns_to_say_what_it_sees(learn_recipe, algorithm, extra, seed):
    env = "palaestra/Identity-v0"
    extra = {**extra, "gamma": 0.5}  # what is seen next does not depend on the action
    assert learn_recipe(config_of(algorithm, extra, env, STEPS[algorithm], seed)) == OPTIMAL_RETURNS[env]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("algorithm", "extra"), ALGORITHMS)
def test_it_learns_to_walk_to_the_end_of_a_corridor(learn_recipe, algorithm, extra, seed):
    env = "palaestra/Corridor-v0"
    assert learn_recipe(config_of(algorithm, extra, env, STEPS[algorithm], seed)) == pytest.approx(OPTIMAL_RETURNS[env])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("algorithm", "extra"), ALGORITHMS)
def test_a_time_limit_does_not_lower_the_value_of_what_goes_on(learn_agent, algorithm, extra, seed):
    """Reward 1 for ever at discount 0.9 is worth 10; who takes the cut after 10 steps for an end finds about 6.5."""
    agent = learn_agent(config_of(algorithm, extra, "palaestra/ConstantReward-v0", 8000, seed))
    with torch.no_grad():
        value = float(agent(torch.ones(1, 1, 1), {}, None).value)
    assert value == pytest.approx(1 / (1 - 0.9), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_dqn_balances_a_pole(learn_recipe, seed):
    """Random actions keep it up for 22 steps."""
    dqn = {"learning_starts": 1000, "train_interval": 4, "target_interval": 200, "learning_rate": 1e-3, "double": True}
    config = TrainConfig(
        algorithm="dqn",
        engine="torch",
        total_steps=25_000,
        seed=seed,
        env="CartPole-v1",
        dqn={**dqn, "exploration": {"fraction": 0.3}},
    )
    assert learn_recipe(config) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_pqn_balances_a_pole(learn_recipe, seed):
    pqn = {"env_count": 8, "horizon": 32, "minibatch_size": 64, "learning_rate": 1e-3, "exploration": {"fraction": 0.3}}
    config = TrainConfig(algorithm="pqn", engine="torch", total_steps=100_000, seed=seed, env="CartPole-v1", pqn=pqn)
    assert learn_recipe(config) >= 200
