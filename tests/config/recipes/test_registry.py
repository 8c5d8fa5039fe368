from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest

from palaestra.config.recipes.registry import (
    EXTRA_MODULES,
    Recipe,
    find_recipe,
    is_installed,
    recipe_names,
    require_extra,
)
from palaestra.config.resolve import resolve_training
from palaestra.config.train import TrainConfig
from palaestra.core import plugins
from palaestra.core.errors import MissingExtra, NotFound, UsageError


def test_a_recipe_is_a_value():
    recipe = Recipe("one line", TrainConfig())
    assert recipe == Recipe("one line", TrainConfig(), extra="")
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.summary = "another"


PYPROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def test_every_recipe_of_the_project_is_found_by_name():
    declared = PYPROJECT["entry-points"]["palaestra.recipes"]
    assert set(declared) <= set(recipe_names())
    assert all(isinstance(find_recipe(name), Recipe) for name in declared)


def test_every_recipe_fits_one_line_and_names_an_extra_that_exists():
    for name in PYPROJECT["entry-points"]["palaestra.recipes"]:
        recipe = find_recipe(name)
        assert recipe.summary
        assert "\n" not in recipe.summary
        assert recipe.extra in {"", *PYPROJECT["optional-dependencies"]}


def test_extras_with_a_module_are_extras_of_the_project():
    assert set(EXTRA_MODULES) <= set(PYPROJECT["optional-dependencies"])


def test_variants_train_the_same_environment_with_the_algorithm_that_they_are_named_after():
    count = 0
    for name in PYPROJECT["entry-points"]["palaestra.recipes"]:
        recipe = find_recipe(name)
        for algorithm, config in recipe.variants.items():
            assert (config.algorithm, config.env) == (algorithm, recipe.config.env), name
            assert config.total_steps // config.steps_per_iteration >= 10, name
            count += 1
    assert count > 20


def test_settings_of_a_recipe_follow_the_algorithm_and_may_be_overridden():
    config = resolve_training("halfcheetah", {"algorithm": "sac", "sac": {"gamma": 0.9}})
    assert (config.algorithm, config.sac.learning_starts, config.sac.gamma) == ("sac", 10_000, 0.9)
    assert config.policy.settings == {"hidden": [256, 256], "activation": "relu"}
    assert not config.policy.normalize_observations


def test_an_algorithm_without_settings_in_the_recipe_takes_its_environment_with_defaults():
    config = resolve_training("cartpole", {"algorithm": "sac"})
    assert (config.env.id, config.sac, config.policy.settings) == ("CartPole-v1", TrainConfig().sac, {})


def test_an_unknown_recipe_is_told_with_the_nearest():
    with pytest.raises(NotFound, match="Did you mean 'walker2d'"):
        find_recipe("waker2d")


def test_a_plugin_that_is_no_recipe_is_refused(monkeypatch):
    monkeypatch.setattr(plugins, "load", lambda _kind, _name: 42)
    with pytest.raises(UsageError, match="is a int, not a Recipe"):
        find_recipe("odd")


def test_what_is_not_importable_is_not_installed(monkeypatch):
    assert is_installed("")
    monkeypatch.setitem(EXTRA_MODULES, "mujoco", "no_such_module_at_all")
    assert not is_installed("mujoco")
    with pytest.raises(MissingExtra, match="'walker2d' needs the extra 'mujoco'"):
        require_extra("walker2d", find_recipe("walker2d"))
