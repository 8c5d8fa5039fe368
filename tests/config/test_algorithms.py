from pathlib import Path

from palaestra.config.algorithms import ALGORITHMS
from palaestra.config.keys import list_keys
from palaestra.config.train import TrainConfig
from palaestra.core.spaces import BoxSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.policies.roles import algorithms_for

SPACES = {
    "discrete": DiscreteSpec(2),
    "multi-discrete": MultiDiscreteSpec((2, 3)),
    "continuous": BoxSpec((1,), low=(-1.0,), high=(1.0,)),
    "unbounded": BoxSpec((1,), low=(float("-inf"),), high=(float("inf"),)),
}


def test_the_algorithms_are_those_of_the_configuration_each_with_a_section():
    (choice,) = [key for key in list_keys(TrainConfig) if key.path == "algorithm"]
    assert tuple(info.name for info in ALGORITHMS) == choice.choices
    assert all(info.name in TrainConfig.model_fields for info in ALGORITHMS)


def test_the_actions_are_those_that_training_accepts():
    for words, space in SPACES.items():
        assert [info.name for info in ALGORITHMS if words in info.actions] == algorithms_for(space), words


def test_the_engines_are_those_that_are_there():
    """The native engine has a module for each algorithm that it computes."""
    engines = Path(__file__).parents[2] / "src" / "palaestra" / "training" / "engines"
    for info in ALGORITHMS:
        assert ("native" in info.engines) == (engines / f"native_{info.name}.py").exists(), info.name


def test_each_has_a_page():
    docs = Path(__file__).parents[2] / "docs"
    assert [info.page for info in ALGORITHMS if not (docs / info.page).exists()] == []
