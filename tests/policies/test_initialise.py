import pytest
import torch
from torch import nn

from palaestra.policies.initialise import HIDDEN_GAIN, orthogonal


def test_rows_of_a_layer_are_orthogonal_with_the_gain_as_length():
    layer = orthogonal(nn.Linear(8, 3), gain=0.5)
    torch.testing.assert_close(layer.weight @ layer.weight.T, 0.25 * torch.eye(3), atol=1e-6, rtol=0)
    assert not layer.bias.any()


def test_a_convolution_is_orthogonal_as_a_matrix():
    layer = orthogonal(nn.Conv2d(2, 4, 3))
    matrix = layer.weight.flatten(1)
    torch.testing.assert_close(matrix @ matrix.T, HIDDEN_GAIN**2 * torch.eye(4), atol=1e-5, rtol=0)
    assert pytest.approx(2**0.5) == HIDDEN_GAIN
