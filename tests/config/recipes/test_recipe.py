import dataclasses

import pytest

from palaestra.config.recipes.recipe import Recipe
from palaestra.config.train import TrainConfig


def test_a_recipe_is_a_value():
    recipe = Recipe("one line", TrainConfig())
    assert recipe == Recipe("one line", TrainConfig(), extra="")
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.summary = "another"
