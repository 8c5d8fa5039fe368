"""Gymnasium's Box2D tasks; they need the extra 'box2d'. Numbers began as RL Zoo's public ones."""

from __future__ import annotations

from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.config.ppo import PpoConfig
from palaestra.config.pqn import PqnConfig
from palaestra.config.recipes.classic import SHORT_TD3, STEADY_DQN
from palaestra.config.recipes.registry import Recipe, mlp, variants
from palaestra.config.sac import SacConfig
from palaestra.config.schedule import constant, linear
from palaestra.config.train import TrainConfig

LANDER_PPO = PpoConfig(
    env_count=16,
    horizon=1024,
    minibatch_size=64,
    update_epochs=4,
    learning_rate=constant(3e-4),
    gamma=0.999,
    gae_lambda=0.98,
    clip_value_loss=False,
    entropy_coefficient=constant(0.01),
    value_coefficient=1.0,
)

lunarlander = Recipe(
    summary="land a rocket softly between two flags; four engine commands",
    config=TrainConfig(
        total_steps=1_000_000,
        env=EnvConfig(id="LunarLander-v3"),
        policy=PolicyConfig(graph="mlp", normalize_observations=True, normalize_returns=True),
        ppo=PpoConfig(
            env_count=16,
            horizon=256,
            minibatch_size=128,
            update_epochs=6,
            learning_rate=linear(6e-4),
            gamma=0.995,
            gae_lambda=0.97,
            clip_value_loss=False,
            entropy_coefficient=constant(0.005),
            value_coefficient=1.0,
        ),
    ),
    variants=variants(
        TrainConfig(
            algorithm="dqn",
            total_steps=100_000,
            env=EnvConfig(id="LunarLander-v3"),
            policy=mlp(256, 256),
            dqn=STEADY_DQN,
        ),
        TrainConfig(
            algorithm="pqn",
            total_steps=1_000_000,
            env=EnvConfig(id="LunarLander-v3"),
            pqn=PqnConfig(env_count=16, horizon=64, minibatch_size=256, q_lambda=0.9),
        ),
    ),
    extra="box2d",
)

lunarlander_continuous = Recipe(
    summary="land the same rocket with throttles instead of switches",
    config=TrainConfig(total_steps=1_000_000, env=EnvConfig(id="LunarLanderContinuous-v3"), ppo=LANDER_PPO),
    variants=variants(
        TrainConfig(
            algorithm="sac",
            total_steps=500_000,
            env=EnvConfig(id="LunarLanderContinuous-v3"),
            policy=mlp(400, 300),
            sac=SacConfig(learning_starts=10_000, learning_rate=linear(7.3e-4), tau=0.01),
        ),
        TrainConfig(
            algorithm="td3",
            total_steps=300_000,
            env=EnvConfig(id="LunarLanderContinuous-v3"),
            policy=mlp(400, 300),
            td3=SHORT_TD3,
        ),
    ),
    extra="box2d",
)

bipedalwalker = Recipe(
    summary="walk on two legs over gentle ground",
    config=TrainConfig(
        total_steps=5_000_000,
        env=EnvConfig(id="BipedalWalker-v3"),
        policy=PolicyConfig(graph="mlp", normalize_observations=True, normalize_returns=True),
        ppo=PpoConfig(
            env_count=32,
            horizon=2048,
            minibatch_size=64,
            update_epochs=10,
            learning_rate=constant(3e-4),
            gamma=0.999,
            clip=constant(0.18),
            clip_value_loss=False,
            entropy_coefficient=constant(0.0),
            value_coefficient=1.0,
        ),
    ),
    variants=variants(
        TrainConfig(
            algorithm="sac",
            total_steps=500_000,
            env=EnvConfig(id="BipedalWalker-v3"),
            policy=mlp(400, 300),
            sac=SacConfig(
                buffer_size=300_000,
                learning_starts=10_000,
                train_interval=64,
                gradient_steps=64,
                learning_rate=constant(7.3e-4),
                gamma=0.98,
                tau=0.02,
            ),
        ),
        TrainConfig(
            algorithm="td3",
            total_steps=1_000_000,
            env=EnvConfig(id="BipedalWalker-v3"),
            policy=mlp(400, 300),
            td3=SHORT_TD3,
        ),
    ),
    extra="box2d",
)

bipedalwalker_hardcore = Recipe(
    summary="walk on two legs over stumps, pits and stairs; long",
    config=TrainConfig(
        total_steps=100_000_000,
        env=EnvConfig(id="BipedalWalkerHardcore-v3"),
        policy=PolicyConfig(graph="mlp", normalize_observations=True, normalize_returns=True),
        ppo=PpoConfig(
            env_count=16,
            horizon=2048,
            minibatch_size=64,
            update_epochs=10,
            learning_rate=linear(2.5e-4),
            clip=linear(0.2),
            clip_value_loss=False,
            entropy_coefficient=constant(0.001),
            value_coefficient=1.0,
        ),
    ),
    extra="box2d",
)
