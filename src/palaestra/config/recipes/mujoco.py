"""Gymnasium's MuJoCo bodies; they need the extra 'mujoco'.

For PPO all share the settings that the field compares against, CleanRL's: one million steps, both normalisers on, a
linearly falling learning rate, half the squared error as value loss. Bodies that are known to want another discount or
entropy say so. The cheetah's are our own; docs/benchmarks/learning.md says what they are worth.

For SAC and TD3 all share RL Zoo's: 10,000 random steps, then one update per step.
"""

from __future__ import annotations

from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.config.ppo import PpoConfig
from palaestra.config.recipes.registry import Recipe, mlp, variants
from palaestra.config.sac import SacConfig
from palaestra.config.schedule import Schedule, constant, linear
from palaestra.config.td3 import Td3Config
from palaestra.config.train import TrainConfig

NO_BONUS = constant(0.0)


def _off_policy(
    env_id: str, *, total_steps: int = 1_000_000, learning_starts: int = 10_000, gamma: float = 0.99
) -> dict[str, TrainConfig]:
    """The variants for SAC and TD3."""
    env = EnvConfig(id=env_id)
    return variants(
        TrainConfig(
            algorithm="sac",
            total_steps=total_steps,
            env=env,
            policy=mlp(256, 256),
            sac=SacConfig(learning_starts=learning_starts, gamma=gamma),
        ),
        TrainConfig(
            algorithm="td3",
            total_steps=total_steps,
            env=env,
            policy=mlp(400, 300),
            td3=Td3Config(learning_starts=learning_starts, learning_rate=constant(1e-3), gamma=gamma),
        ),
    )


def _body(
    env_id: str,
    summary: str,
    gamma: float = 0.99,
    entropy_coefficient: Schedule = NO_BONUS,
    others: dict[str, TrainConfig] | None = None,
) -> Recipe:
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
    return Recipe(summary=summary, config=config, extra="mujoco", variants=others or _off_policy(env_id))


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
    variants=_off_policy("HalfCheetah-v5"),
)
hopper = _body("Hopper-v5", "hop forward on one leg", gamma=0.999, entropy_coefficient=constant(0.002))
humanoid = _body(
    "Humanoid-v5", "walk with a whole body, 17 joints", others=_off_policy("Humanoid-v5", total_steps=2_000_000)
)
inverted_pendulum = _body(
    "InvertedPendulum-v5",
    "balance a pole on a cart, with forces",
    others=_off_policy("InvertedPendulum-v5", total_steps=100_000, learning_starts=1_000),
)
inverted_double_pendulum = _body("InvertedDoublePendulum-v5", "balance two poles on top of each other")
reacher = _body(
    "Reacher-v5",
    "touch a target with a two-link arm",
    gamma=0.9,
    others=_off_policy("Reacher-v5", total_steps=300_000, learning_starts=1_000),
)
swimmer = _body(
    "Swimmer-v5",
    "swim with a chain of three links",
    gamma=0.9999,
    others=_off_policy("Swimmer-v5", gamma=0.9999),
)
walker2d = _body("Walker2d-v5", "walk on two legs in a plane")
