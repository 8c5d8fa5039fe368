import pytest

from palaestra.config.resolve import resolve_training

pytestmark = [pytest.mark.slow, pytest.mark.full]


def test_the_recipe_cartpole_solves_cartpole(learn_recipe):
    """Solved is 475 of 500."""
    assert learn_recipe(resolve_training("cartpole", {})) >= 475
