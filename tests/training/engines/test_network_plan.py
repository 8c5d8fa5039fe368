import pytest

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.training.engines.network_plan import (
    HeadKind,
    HeadPlan,
    InputKind,
    InputPlan,
    NetworkPlan,
    Unsupported,
    part_of,
    plan_head,
    plan_input,
    plan_vector_input,
)

VECTOR = BoxSpec((5,))


def test_observations_become_one_vector():
    assert plan_input(BoxSpec((2, 3))).size == 6
    assert plan_input(BoxSpec((2, 3), "uint8")).kind is InputKind.BYTES
    assert plan_input(DiscreteSpec(4, 1)).starts == [1]
    several = plan_input(MultiDiscreteSpec((2, 5)))
    assert (several.size, several.counts, several.starts) == (7, [2, 5], [0, 0])
    with pytest.raises(Unsupported, match="named parts"):
        plan_input(DictSpec((("a", VECTOR),)))


def test_actions_are_categorical_or_gaussian():
    assert plan_head(DiscreteSpec(3)) == HeadPlan(HeadKind.CATEGORICAL, [3])
    assert plan_head(MultiDiscreteSpec((3, 2))) == HeadPlan(HeadKind.CATEGORICAL, [3, 2])
    assert plan_head(BoxSpec((2, 2))) == HeadPlan(HeadKind.GAUSSIAN, [1, 1, 1, 1])
    with pytest.raises(Unsupported):
        plan_head(DictSpec((("a", VECTOR),)))


def test_slot_0_is_the_named_part_the_whole_observation_or_empty():
    space = DictSpec((("cells", BoxSpec((2, 3), "uint8")), ("self", VECTOR)))
    assert part_of(space, "self") == part_of(VECTOR, "") == VECTOR
    assert plan_vector_input(NetworkPlan([5], input_part="self"), space) == plan_input(VECTOR)
    assert plan_vector_input(NetworkPlan([5]), VECTOR).kind is InputKind.FLOATS
    assert plan_vector_input(NetworkPlan([0], input_part=None), space) == InputPlan(InputKind.BYTES, 0, [], [])
