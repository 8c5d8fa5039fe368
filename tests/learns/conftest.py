"""Training and judging in this process, without a run directory: what is tested here is that it learns."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch

import palaestra.testing.envs  # noqa: F401  registers the tiny environments
from palaestra.config.train import TrainConfig
from palaestra.envs.make import make_env
from palaestra.evaluation.plans import make_plan
from palaestra.evaluation.play import play
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.policies.agent import Agent

SETTINGS = {
    "env_count": 8,
    "horizon": 32,
    "minibatch_size": 64,
    "learning_rate": 3e-3,
    "gamma": 0.9,
    "entropy_coefficient": 0.0,
}


def learn_config(config: TrainConfig) -> Agent:
    torch.set_num_threads(1)
    state = new_training_state(config)
    for _ in train(state):
        pass
    state.envs.close()
    return state.algorithm.policy()


def mean_return(agent: Agent, config: TrainConfig) -> float:
    """Of 20 episodes on seeds that training never saw, taking the likeliest action."""
    plan = make_plan("in memory", config.env, episodes=20, seed=1_000_000, deterministic=True)
    return play(plan, agent, partial(make_env, config.env)).mean


@pytest.fixture
def learn() -> Callable[..., tuple[Agent, float]]:
    """`learn("palaestra/Bandit-v0", 4096, seed)` -> the agent, and its mean return."""

    def run(env: str, total_steps: int, seed: int, **ppo: Any) -> tuple[Agent, float]:
        config = TrainConfig(total_steps=total_steps, seed=seed, env=env, ppo={**SETTINGS, **ppo})
        agent = learn_config(config)
        return agent, mean_return(agent, config)

    return run


@pytest.fixture
def learn_agent() -> Callable[[TrainConfig], Agent]:
    return learn_config


@pytest.fixture
def learn_recipe() -> Callable[[TrainConfig], float]:
    return lambda config: mean_return(learn_config(config), config)
