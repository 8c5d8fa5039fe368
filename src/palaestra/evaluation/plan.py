"""What is to be played: a list of seeds, and nothing that depends on who plays them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.contracts.errors import UsageError
from palaestra.contracts.evaluation import EvaluationPlan

if TYPE_CHECKING:
    from palaestra.config.env import EnvConfig

# Gymnasium takes any natural number; torch's generator at most 64 bits, and half of that leaves room to count on.
LARGEST_SEED = 2**63 - 1


def make_plan(
    checkpoint: str,
    env: EnvConfig,
    *,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    suite: str = "default",
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
    )
