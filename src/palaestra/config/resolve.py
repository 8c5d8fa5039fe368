"""Applies overrides to a recipe and validates the result; all errors are reported at once."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from palaestra.config.base import Frozen, note_old_name
from palaestra.config.errors import describe_errors
from palaestra.config.keys import nested_model
from palaestra.config.off_policy import OffPolicyConfig
from palaestra.config.recipes.registry import find_recipe, require_extra
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

Model = TypeVar("Model", bound=BaseModel)


def resolve_config(model_type: type[Model], base: Model | None, overrides: Mapping[str, Any]) -> Model:
    """`base` (default: the model's own values) with `overrides` applied key by key."""
    start = base if base is not None else model_type()
    merged = merge(model_type, start.model_dump(mode="python"), dict(overrides))
    try:
        return model_type.model_validate(merged)
    except ValidationError as error:
        lines = describe_errors(model_type, error, str(merged.get("algorithm", "")))
        if len(lines) == 1:
            message, hint = lines[0]
            raise UsageError(message, hint) from error
        text = "\n".join(f"  - {message} {hint}".rstrip() for message, hint in lines)
        raise UsageError(f"{len(lines)} invalid settings:\n{text}") from error


def merge(model_type: type[BaseModel] | None, base: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """A new dictionary that shares no nested values with its arguments."""
    merged = deepcopy(base)
    renamed = model_type.renamed_keys if model_type is not None and issubclass(model_type, Frozen) else {}
    for key, value in overrides.items():
        if key in renamed:
            note_old_name(key, renamed[key])
            key = renamed[key]
        field = model_type.model_fields.get(key) if model_type is not None else None
        nested = nested_model(field) if field is not None else None
        standing = merged.get(key)
        if nested is not None and issubclass(nested, Frozen) and isinstance(standing, dict):
            value = nested.normalize_override(value, standing)
        if isinstance(value, dict) and isinstance(standing, dict):
            merged[key] = merge(nested, standing, value)
        else:
            merged[key] = deepcopy(value)
    return merged


def resolve_training(recipe_name: str, overrides: Mapping[str, Any]) -> TrainConfig:
    """The recipe's settings with `overrides` applied; without a recipe name, the defaults with `overrides`."""
    base = None
    if recipe_name:
        recipe = find_recipe(recipe_name)
        base = recipe.config_for(str(overrides.get("algorithm", recipe.config.algorithm)))
    config = resolve_config(TrainConfig, base, overrides)
    refuse_contradictions(config)
    return config


def refuse_contradictions(config: TrainConfig) -> None:
    """Settings that are valid one by one, and with which nothing could be learned."""
    algorithm, settings = config.algorithm, config.algorithm_settings
    if algorithm == "pqn" and config.dqn.prioritized.enabled:
        raise UsageError(
            "dqn.prioritized.enabled=true has no effect with algorithm=pqn, which has no replay buffer.",
            "Take algorithm=dqn for prioritised replay, or leave the setting out.",
        )
    if not isinstance(settings, OffPolicyConfig):
        return
    limit = config.env.max_episode_steps
    if limit is not None and settings.n_step > limit:
        raise UsageError(
            f"{algorithm}.n_step={settings.n_step} is above env.max_episode_steps={limit}, the longest episode.",
            f"Try {algorithm}.n_step={min(5, limit)}.",
        )


def build_request(
    recipe_name: str, overrides: Mapping[str, Any], *, name: str = "", submitted_by: str = "", command: str = ""
) -> tuple[RunRequest, TrainConfig]:
    """The request and its complete configuration, validated before anything is written to disk."""
    config = resolve_training(recipe_name, overrides)
    if recipe_name:
        require_extra(recipe_name, find_recipe(recipe_name))
    request = RunRequest(
        kind="native", recipe=recipe_name, config=dict(overrides), name=name, submitted_by=submitted_by, command=command
    )
    return request, config
