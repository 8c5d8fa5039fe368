"""What is to be played: a list of seeds, and nothing that depends on who plays them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.core.evaluation import DEFAULT, EvaluationPlan

if TYPE_CHECKING:
    from palaestra.config.evaluation import EvaluationConfig
    from palaestra.evaluation.suites import Suite

# Gymnasium takes any natural number; torch's generator at most 64 bits, and half of that leaves room to count on.
LARGEST_SEED = 2**63 - 1


def make_plan(
    checkpoint: str,
    env: EnvConfig,
    *,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    suite: str = DEFAULT,
    simulation: str = DEFAULT,
    category: str = DEFAULT,
    max_steps: int | None = None,
) -> EvaluationPlan:
    """Episode k has seed `seed + k`, so that a longer plan begins like a shorter one."""
    if episodes < 1:
        raise UsageError(f"episodes={episodes} cannot be played.", "Ask for 1 or more.")
    if not 0 <= seed <= LARGEST_SEED - episodes:
        raise UsageError(f"seed={seed} cannot be used.", f"Choose one from 0 to {LARGEST_SEED - episodes}.")
    return EvaluationPlan(
        checkpoint=checkpoint,
        env_id=env.id,
        env_kwargs=dict(env.kwargs),
        seeds=tuple(range(seed, seed + episodes)),
        deterministic=deterministic,
        suite=suite,
        max_episode_steps=env.max_episode_steps,
        simulation=simulation,
        category=category,
        max_steps=max_steps,
    )


def make_plans(
    checkpoint: str,
    suite: Suite,
    *,
    batch: int = 0,
    episodes: int | None = None,
    seed: int | None = None,
    deterministic: bool | None = None,
    max_steps: int | None = None,
) -> tuple[EvaluationPlan, ...]:
    """One plan for each simulation. What is given here goes before what a simulation says, and that before its suite.

    The seeds of batch k follow those of batch k - 1.
    """
    settings: EvaluationConfig = suite.settings
    plans = []
    for one in suite.simulations:
        count = next(number for number in (episodes, one.episodes, settings.episodes) if number is not None)
        first = next(number for number in (seed, one.seed, settings.seed) if number is not None)
        plans.append(
            make_plan(
                checkpoint,
                one.env,
                episodes=count,
                seed=first + batch * count,
                deterministic=settings.deterministic if deterministic is None else deterministic,
                suite=suite.name,
                simulation=one.name,
                category=one.category,
                max_steps=settings.max_steps if max_steps is None else max_steps,
            )
        )
    return tuple(plans)


def env_of(plan: EvaluationPlan) -> EnvConfig:
    return EnvConfig(id=plan.env_id, kwargs=dict(plan.env_kwargs), max_episode_steps=plan.max_episode_steps)
