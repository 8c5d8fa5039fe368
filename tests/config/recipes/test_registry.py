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
