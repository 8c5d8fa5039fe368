import pytest
import torch
from torch.nn import functional

from palaestra.policies.narrow import MANY, THIN, linear

SHAPES = [
    pytest.param((MANY, 4), id="thin"),
    pytest.param((MANY, 1), id="one number"),
    pytest.param((MANY, THIN), id="wide"),
    pytest.param((5, 4), id="few rows"),
    pytest.param((2, MANY, 4), id="tokens"),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_layer_that_torch_has_with_the_same_slopes(shape):
    torch.manual_seed(0)
    rows = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, shape[-1], dtype=torch.float64, requires_grad=True)
    bias = torch.randn(7, dtype=torch.float64, requires_grad=True)
    ours, theirs = linear(rows, weight, bias), functional.linear(rows, weight, bias)
    torch.testing.assert_close(ours, theirs)
    found, expected = (
        torch.autograd.grad(out.square().sum(), (rows, weight, bias), retain_graph=True) for out in (ours, theirs)
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_slopes_are_added_to_weights_that_lie_in_a_larger_block():
    block = torch.zeros(2 * 7 * 4)
    weight = torch.nn.Parameter(torch.ones(7, 4))
    weight.grad = block[7 * 4 :].view(7, 4)
    linear(torch.ones(MANY, 4), weight, torch.zeros(7)).sum().backward()
    assert block[: 7 * 4].eq(0).all()
    assert block[7 * 4 :].eq(MANY).all()
