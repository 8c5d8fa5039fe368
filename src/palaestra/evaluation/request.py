"""A request for a judgement as JSON, so that it can be sent anywhere, and the name by which equal ones are known."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.names import model_name
from palaestra.core.episodes import EpisodeResult
from palaestra.core.evaluation import EvaluationPlan, EvaluationRequest
from palaestra.runs.environment import package_versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.core.checkpoint import Checkpoint

KEY_DIGITS = 32
HEADINGS = frozenset({"checkpoint", "suite", "category"})  # what a plan says about itself and no episode depends on


def make_request(
    checkpoint: Checkpoint, plans: Iterable[EvaluationPlan], git_commit: str | None = None
) -> EvaluationRequest:
    """For a checkpoint that is on disk; the commit is the one it was trained with, unless another is given."""
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
    """sha256, as the sidecar says and the reader has verified."""
    return str(checkpoint.files.get(model_name(checkpoint.epoch), {}).get("sha256", ""))


def key_of(weights: str, plans: Iterable[EvaluationPlan]) -> str:
    """Equal exactly when the same weights play the same seeds of the same simulations: then the results are equal."""
    played = [{name: value for name, value in asdict(plan).items() if name not in HEADINGS} for plan in plans]
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
    """Also from a file in which what is not finite is spelled out."""
    extras = {name: float(value) for name, value in fields["extras"].items()}
    return EpisodeResult(**{**fields, "total_reward": float(fields["total_reward"]), "extras": extras})
