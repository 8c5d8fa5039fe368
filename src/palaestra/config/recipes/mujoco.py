"""Gymnasium's MuJoCo bodies; they need the extra 'mujoco'.

All share the settings that the field compares against, CleanRL's: one million steps, both normalisers on, a linearly
falling learning rate, half the squared error as value loss. Bodies that are known to want another discount or entropy
say so. The cheetah's are our own; docs/benchmarks/learning.md says what they are worth.
"""

from __future__ import annotations

from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.config.ppo import PpoConfig
from palaestra.config.recipes.registry import Recipe
from palaestra.config.schedule import Schedule, constant, linear
from palaestra.config.train import TrainConfig

NO_BONUS = constant(0.0)


def _body(env_id: str, summary: str, gamma: float = 0.99, entropy_coefficient: Schedule = NO_BONUS) -> Recipe:
    config = TrainConfig(
        total_steps=1_000_000,
        env=EnvConfig(id=env_id),
        policy=PolicyConfig(graph="mlp", normalize_observations=True, normalize_returns=True),
        ppo=PpoConfig(
            env_count=1,
            horizon=2048,
            minibatch_size=64,
            update_epochs=10,
            learning_rate=linear(3e-4),
            gamma=gamma,
            gae_lambda=0.95,
            clip=constant(0.2),
            entropy_coefficient=entropy_coefficient,
        ),
    )
    return Recipe(summary=summary, config=config, extra="mujoco")


ant = _body("Ant-v5", "run with four legs", gamma=0.98)
halfcheetah = Recipe(
    summary="run with a flat two-legged cheetah",
    config=TrainConfig(
        total_steps=1_000_000,
        env=EnvConfig(id="HalfCheetah-v5"),
        policy=PolicyConfig(
            graph="mlp",
            settings={"hidden": [256, 256], "activation": "relu", "log_std": -2.0},
            normalize_observations=True,
            normalize_returns=True,
        ),
        ppo=PpoConfig(
            env_count=1,
            horizon=512,
            minibatch_size=64,
            update_epochs=10,
            learning_rate=linear(1e-4),
            gamma=0.98,
            gae_lambda=0.92,
            clip=constant(0.2),
            clip_value_loss=False,
            entropy_coefficient=NO_BONUS,
            value_coefficient=1.0,
            max_grad_norm=0.8,
        ),
    ),
    extra="mujoco",
)
hopper = _body("Hopper-v5", "hop forward on one leg", gamma=0.999, entropy_coefficient=constant(0.002))
humanoid = _body("Humanoid-v5", "walk with a whole body, 17 joints")
inverted_pendulum = _body("InvertedPendulum-v5", "balance a pole on a cart, with forces")
inverted_double_pendulum = _body("InvertedDoublePendulum-v5", "balance two poles on top of each other")
reacher = _body("Reacher-v5", "touch a target with a two-link arm", gamma=0.9)
swimmer = _body("Swimmer-v5", "swim with a chain of three links", gamma=0.9999)
walker2d = _body("Walker2d-v5", "walk on two legs in a plane")
