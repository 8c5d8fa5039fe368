import pytest

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.training.engines.codes import HeadCode, InputCode, Unfit, plan_head, plan_input

SEEN = BoxSpec((5,))


def test_observations_become_one_vector():
    assert plan_input(BoxSpec((2, 3))).size == 6
    assert plan_input(BoxSpec((2, 3), "uint8")).code is InputCode.BYTES
    assert plan_input(DiscreteSpec(4, 1)).firsts == [1]
    several = plan_input(MultiDiscreteSpec((2, 5)))
    assert (several.size, several.counts, several.firsts) == (7, [2, 5], [0, 0])
    with pytest.raises(Unfit, match="named parts"):
        plan_input(DictSpec((("a", SEEN),)))


def test_actions_become_choices_or_normals():
    assert plan_head(DiscreteSpec(3)) == (HeadCode.CHOICES, [3])
    assert plan_head(MultiDiscreteSpec((3, 2))) == (HeadCode.CHOICES, [3, 2])
    assert plan_head(BoxSpec((2, 2))) == (HeadCode.NORMAL, [1, 1, 1, 1])
    with pytest.raises(Unfit):
        plan_head(DictSpec((("a", SEEN),)))
