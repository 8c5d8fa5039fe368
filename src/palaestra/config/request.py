"""From words to a request and a complete configuration; the command line and `palaestra.train` meet here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.config.recipes.find import find_recipe, require_extra
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig
from palaestra.core.run import RunRequest

if TYPE_CHECKING:
    from collections.abc import Mapping


def resolve_training(recipe_name: str, overrides: Mapping[str, Any]) -> TrainConfig:
    """The recipe's settings with `overrides` laid over; without a recipe name, over the defaults."""
    base = find_recipe(recipe_name).config if recipe_name else None
    return resolve_config(TrainConfig, base, overrides)


def prepare_training(
    recipe_name: str, overrides: Mapping[str, Any], *, name: str = "", submitted_by: str = "", command: str = ""
) -> tuple[RunRequest, TrainConfig]:
    """What was asked, and what will be run. Refuses here, before anything is on disk."""
    config = resolve_training(recipe_name, overrides)
    if recipe_name:
        require_extra(recipe_name, find_recipe(recipe_name))
    request = RunRequest(
        kind="native", recipe=recipe_name, config=dict(overrides), name=name, submitted_by=submitted_by, command=command
    )
    return request, config
