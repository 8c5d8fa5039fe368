from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from palaestra.policies.layers import HIDDEN_GAIN, MANY, THIN, linear, orthogonal, torch_initialization


def test_rows_of_a_layer_are_orthogonal_with_the_gain_as_length():
    layer = orthogonal(nn.Linear(8, 3), gain=0.5)
    torch.testing.assert_close(layer.weight @ layer.weight.T, 0.25 * torch.eye(3), atol=1e-6, rtol=0)
    assert not layer.bias.any()


def test_a_convolution_is_orthogonal_as_a_matrix():
    layer = orthogonal(nn.Conv2d(2, 4, 3))
    matrix = layer.weight.flatten(1)
    torch.testing.assert_close(matrix @ matrix.T, HIDDEN_GAIN**2 * torch.eye(4), atol=1e-5, rtol=0)
    assert pytest.approx(2**0.5) == HIDDEN_GAIN


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


def test_weights_are_left_as_torch_draws_them_where_that_is_wanted():
    with torch_initialization():
        torch.manual_seed(0)
        ours = orthogonal(nn.Linear(9, 4), gain=5.0)
    torch.manual_seed(0)
    plain = nn.Linear(9, 4)
    assert torch.equal(ours.weight, plain.weight)
    assert torch.equal(ours.bias, plain.bias)
    assert not orthogonal(nn.Linear(9, 4)).bias.any()
    with torch_initialization(enabled=False):
        assert not orthogonal(nn.Linear(9, 4)).bias.any()
