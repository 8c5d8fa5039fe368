import pytest

from palaestra.config.resolve import resolve_training
from palaestra.training.engines import native_engine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler"),
]


def test_the_native_engine_solves_cartpole_with_the_recipe_as_it_is(learn_recipe):
    """Solved is 475 of 500."""
    assert learn_recipe(resolve_training("cartpole", {"engine": "native"})) >= 475
