"""Recipes for Arena. All have the same observation, so that a policy of one can play every other."""

from __future__ import annotations

from typing import Any

from palaestra.config.env import CurriculumConfig, EnvConfig, TaskConfig
from palaestra.config.evaluation import EvaluationConfig, SimulationConfig
from palaestra.config.policy import PolicyConfig
from palaestra.config.ppo import PpoConfig
from palaestra.config.recipes.registry import Recipe
from palaestra.config.schedule import constant, linear
from palaestra.config.train import TrainConfig

ENV_ID = "palaestra/Arena-v0"
OBSERVATION: dict[str, Any] = {"observation": "bytes", "view": 11}

BASE: dict[str, Any] = {
    **OBSERVATION,
    "agents": 24,
    "width": 25,
    "height": 25,
    "walls": 10,
    "mine": {"count": 10, "cooldown": 4},
    "generator": {"count": 5, "cooldown": 4},
    "altar": {"count": 5, "cost": 3, "cooldown": 8},
    "max_steps": 256,
}
EASY: dict[str, Any] = {
    "mine": {"count": 10, "cooldown": 1},
    "generator": {"count": 5, "cooldown": 1},
    "altar": {"count": 5, "cost": 1, "cooldown": 1},
}
SHAPED: dict[str, Any] = {
    "rewards": {"ore": 0.1, "battery": 0.3, "heart": 1.0},
    "reward_caps": {"ore": 4, "battery": 4},
}

SMALL_WALLED: dict[str, Any] = {"width": 17, "height": 17, "walls": 6}
ROOMS: dict[str, Any] = {"width": 33, "height": 33, "room": 7, "walls": 0}


def _suite(episodes: int, **elsewhere: dict[str, Any]) -> EvaluationConfig:
    """Evaluates the training world and, for generalisation, worlds with other settings, by name.

    Actions are sampled: two agents with deterministic policies can block each other in a corridor for ever.
    """
    unseen = {
        name: SimulationConfig(category="generalisation", env={"kwargs": kwargs}) for name, kwargs in elsewhere.items()
    }
    plain = SimulationConfig(category="training")
    return EvaluationConfig(episodes=episodes, deterministic=False, simulations={"plain": plain, **unseen})


BASE_SUITE = _suite(5, crowded=SMALL_WALLED, rooms=ROOMS)  # an episode is one of 24 agents


def _learning(env_count: int, horizon: int = 32) -> PpoConfig:
    """PPO settings; rows are agents. Small minibatches, since a rollout has enough data for many updates."""
    return PpoConfig(
        env_count=env_count,
        horizon=horizon,
        minibatch_size=min(1024, env_count * horizon // 8),
        update_epochs=2,
        learning_rate=linear(3e-3),
        gamma=0.99,
        gae_lambda=0.9,
        clip_value_loss=False,
        entropy_coefficient=constant(0.01),
    )


def _recipe(
    summary: str,
    kwargs: dict[str, Any],
    *,
    env_count: int,
    total_steps: int,
    horizon: int = 32,
    remember: int | None = None,
    **further: Any,
) -> Recipe:
    return Recipe(
        summary=summary,
        config=TrainConfig(
            total_steps=total_steps,
            env=EnvConfig(id=ENV_ID, kwargs=kwargs),
            policy=PolicyConfig(
                graph="grid", settings={} if remember is None else {"remember": remember}, normalize_returns=True
            ),
            ppo=_learning(env_count, horizon),
            **further,
        ),
    )


tiny = _recipe(
    "arena: two agents on a small map, ore to battery to heart; seconds",
    {
        **OBSERVATION,
        "agents": 2,
        "width": 9,
        "height": 9,
        "mine": {"count": 2, "cooldown": 1},
        "generator": {"count": 1, "cooldown": 1},
        "altar": {"count": 1, "cost": 1, "cooldown": 1},
        **SHAPED,
        "max_steps": 64,
    },
    env_count=64,
    total_steps=500_000,
    evaluation=_suite(20, wide={"width": 15, "height": 15}, walls={"walls": 4}),
)

navigation = _recipe(
    "arena: find the altars behind the doors and remember which were visited",
    {
        **OBSERVATION,
        "agents": 4,
        "width": 33,
        "height": 33,
        "room": 7,
        "mine": {"count": 0},
        "generator": {"count": 0},
        "altar": {"count": 24, "cost": 0, "stock": 1},
        "show_state": False,
        "sight": 3,
        "max_steps": 256,
    },
    env_count=256,
    total_steps=10_000_000,
    horizon=64,
    remember=64,
    evaluation=_suite(5, far={"width": 41, "height": 41}, halls={"room": 11}),
)

basic = _recipe(
    "arena: 24 agents, ore to battery to heart, rewarded for hearts alone",
    BASE,
    env_count=384,
    total_steps=50_000_000,
    evaluation=BASE_SUITE,
)

basic_easy_shaped = _recipe(
    "arena: the same with one battery a heart, quick stations and rewards on the way; start here",
    {**BASE, **EASY, **SHAPED},
    env_count=384,
    total_steps=2_000_000,
    evaluation=BASE_SUITE,
)

combat = _recipe(
    "arena: two teams with charges to freeze and rob each other, and armour against it",
    {
        **BASE,
        **SHAPED,
        "teams": 2,
        "combat": True,
        "armoury": {"count": 3, "cost": 3, "cooldown": 4},
        "charger": {"count": 3, "cost": 1, "cooldown": 4},
    },
    env_count=384,
    total_steps=50_000_000,
    evaluation=BASE_SUITE,
)

curriculum = _recipe(
    "arena: from the easy shaped world to the plain one, by what is being learned",
    BASE,
    env_count=384,
    total_steps=50_000_000,
    evaluation=_suite(
        5, large={"width": 41, "height": 41}, labyrinth={"width": 33, "height": 33, "room": 5, "walls": 0}
    ),
    curriculum=CurriculumConfig(
        kind="learning_progress",
        tasks={
            "easy_shaped": TaskConfig(kwargs={**EASY, **SHAPED}),
            "easy": TaskConfig(kwargs=EASY),
            "shaped": TaskConfig(kwargs=SHAPED),
            "plain": TaskConfig(),
            "crowded": TaskConfig(kwargs=SMALL_WALLED),
            "rooms": TaskConfig(kwargs=ROOMS),
        },
    ),
)
