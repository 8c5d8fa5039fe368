import pytest
import torch

from palaestra.core.spaces import BoxSpec
from palaestra.policies.components.base import Misfit, Signal

CELLS = BoxSpec((2, 3), "uint8", (0.0,), (4.0,))


def raw(space):
    return Signal("observation", space.shape, space)


def test_it_is_a_linear_layer_on_one_hot_cells(make):
    codes = make("codes", raw(CELLS), size=7)
    rows = torch.randint(0, 5, (9, 2, 3), dtype=torch.uint8)
    one_hot = torch.nn.functional.one_hot(rows.long(), 5)[..., 1:].flatten(1).float()  # code 0 adds nothing
    expected = one_hot @ codes.table.view(-1, 7) + codes.bias
    torch.testing.assert_close(codes(rows), expected)
    assert codes.output.shape == (7,)


def test_codes_above_the_most_count_as_the_most(make):
    codes = make("codes", raw(BoxSpec((3,), "uint8", (0.0,), (255.0,))), size=4, most=5)
    assert codes.table.shape == (3, 5, 4)
    high, clipped = torch.tensor([[200, 0, 6]]).byte(), torch.tensor([[5, 0, 5]]).byte()
    torch.testing.assert_close(codes(high), codes(clipped))


@pytest.mark.parametrize("space", [BoxSpec((4,)), BoxSpec((), "uint8", (0.0,), (3.0,))])
def test_what_are_no_codes_is_refused(make, space):
    with pytest.raises(Misfit, match="needs bytes that are codes"):
        make("codes", raw(space), size=4)
