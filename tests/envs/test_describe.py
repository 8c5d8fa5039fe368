import pytest

from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec
from palaestra.envs.describe import describe_space


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (BoxSpec((4,)), "box [4] float32 from -inf to inf"),
        (BoxSpec((2,), low=(0.0, -1.0), high=(1.5, 2.0)), "box [2] float32 from [0, -1] to [1.5, 2]"),
        (BoxSpec((6,), low=(0.0,) * 5 + (1.0,)), "box [6] float32 from [0, 0, 0, 0, …] to inf"),
        (DiscreteSpec(3), "3 choices"),
        (DiscreteSpec(3, 5), "3 choices from 5"),
        (MultiDiscreteSpec((2, 3), (0, 0)), "choices of 2, 3"),
        (MultiDiscreteSpec((2, 3), (0, 1)), "choices of 2, 3 from 0, 1"),
        (DictSpec((("left", DiscreteSpec(2)), ("right", DiscreteSpec(4)))), "{left: 2 choices, right: 4 choices}"),
    ],
)
def test_spaces_in_one_phrase(space, text):
    assert describe_space(space) == text
