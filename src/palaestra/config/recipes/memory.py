"""Recipes for tasks that need a policy with memory; the environments are in testing/envs."""

from __future__ import annotations

from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.config.ppo import PpoConfig
from palaestra.config.recipes.registry import Recipe
from palaestra.config.schedule import constant
from palaestra.config.train import TrainConfig

recall = Recipe(
    summary="a sign is shown once and asked for 60 steps later; 1 with memory, a coin toss without",
    config=TrainConfig(
        total_steps=240_000,
        env=EnvConfig(id="palaestra/Recall-v0"),
        policy=PolicyConfig(graph="memory"),
        ppo=PpoConfig(env_count=16, horizon=128, minibatch_size=512, learning_rate=constant(3e-3)),
    ),
)
