"""Plans and requests of evaluations, their JSON form, and reports from their episodes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.files import model_name
from palaestra.config.env import EnvConfig
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.evaluation import DEFAULT, EvaluationPlan, EvaluationReport, EvaluationRequest
from palaestra.runs.environment import package_versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.config.evaluation import EvaluationConfig
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.evaluation.suites import Suite

# Gymnasium takes any natural number, torch's generator 64 bits; half of that leaves room for further seeds.
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
    """Episode k has seed `seed + k`, so a longer plan starts with the episodes of a shorter one."""
    if episodes < 1:
        raise UsageError(f"Invalid value for episodes: {episodes} (must be at least 1).")
    if not 0 <= seed <= LARGEST_SEED - episodes:
        raise UsageError(f"Invalid value for seed: {seed} (must be from 0 to {LARGEST_SEED - episodes}).")
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
    """One plan for each simulation. Arguments override the simulation, which overrides its suite.

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


KEY_DIGITS = 32
LABELS = frozenset({"checkpoint", "suite", "category"})  # fields of a plan that no episode depends on


def make_request(
    checkpoint: Checkpoint, plans: Iterable[EvaluationPlan], git_commit: str | None = None
) -> EvaluationRequest:
    """A request for a checkpoint on disk; `git_commit` defaults to the commit that it was trained with."""
    return EvaluationRequest(
        run=checkpoint.run,
        run_name=checkpoint.run_name,
        epoch=checkpoint.epoch,
        agent_step=checkpoint.agent_step,
        weights=weights_of(checkpoint),
        plans=tuple(plans),
        versions=dict(package_versions()),
        git_commit=checkpoint.git_commit if git_commit is None else git_commit,
    )


def weights_of(checkpoint: Checkpoint) -> str:
    """sha256 of the weights, as the sidecar states it and the reader has verified it."""
    return str(checkpoint.files.get(model_name(checkpoint.epoch), {}).get("sha256", ""))


def key_of(weights: str, plans: Iterable[EvaluationPlan]) -> str:
    """Equal exactly when the same weights play the same seeds of the same simulations, so that results are equal."""
    played = [{name: value for name, value in asdict(plan).items() if name not in LABELS} for plan in plans]
    for fields in played:
        if fields["max_steps"] is None:  # plans written before this field existed keep their key
            del fields["max_steps"]
    text = json.dumps([weights, played], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def request_to_json(request: EvaluationRequest) -> str:
    return json.dumps(asdict(request), sort_keys=True)


def request_from_json(text: str | bytes) -> EvaluationRequest:
    fields = json.loads(text)
    return EvaluationRequest(**{**fields, "plans": tuple(plan_from(plan) for plan in fields["plans"])})


def plan_from(fields: dict[str, Any]) -> EvaluationPlan:
    return EvaluationPlan(**{**fields, "seeds": tuple(fields["seeds"])})


def episode_from(fields: dict[str, Any]) -> EpisodeResult:
    """Also reads files in which NaN and infinity are strings."""
    extras = {name: float(value) for name, value in fields["extras"].items()}
    return EpisodeResult(**{**fields, "total_reward": float(fields["total_reward"]), "extras": extras})


def split_plan(plan: EvaluationPlan, count: int) -> list[EvaluationPlan]:
    """At most `count` plans of nearly equal size (they differ by at most one episode), none of them empty."""
    return [replace(plan, seeds=plan.seeds[first::count]) for first in range(min(count, len(plan.seeds)))]


def merge_episodes(plan: EvaluationPlan, episodes: Iterable[EpisodeResult], seconds: float) -> EvaluationReport:
    """The report of the whole plan, as if one evaluator had played it alone; incomplete when episodes are missing.

    An episode that arrived twice (its worker was believed lost) counts once: seeds decide, so both are the same.
    """
    by_seed = {episode.seed: episode for episode in episodes}
    unknown = by_seed.keys() - set(plan.seeds)
    if unknown:
        raise RunFailed(f"Received episodes with seeds {sorted(map(str, unknown))[:3]}, which are not in the plan.")
    played = tuple(by_seed[seed] for seed in plan.seeds if seed in by_seed)
    if not played:
        raise RunFailed(f"No episode of '{plan.env_id}' was played.")
    return EvaluationReport(plan, played, seconds, complete=len(played) == len(plan.seeds))
