import pytest
import torch
from torch import nn

from palaestra.policies.components.base import Misfit
from palaestra.policies.components.convolution import layers_for


@pytest.mark.parametrize(
    "settings", [{"kernel": 3}, {"kernel": 4, "stride": 2}, {"kernel": 5, "stride": 3, "padding": 2}]
)
def test_the_shape_foretold_is_the_shape_that_comes_out(make, settings):
    conv = make("conv", [2, 11, 9], channels=6, **settings)
    rows = torch.randn(3, 2, 11, 9)
    assert conv(rows).shape == (3, *conv.output.shape)


def test_a_convolution_is_torchs_own(make):
    conv = make("conv", [2, 5, 5], channels=3, activation="relu")
    rows = torch.randn(1, 2, 5, 5)
    torch.testing.assert_close(conv(rows), torch.relu(conv.layer(rows)))


def test_a_kernel_that_does_not_fit_is_refused_with_the_numbers(make):
    with pytest.raises(Misfit, match=r"kernel of 8 does not fit into 'a' \[3, 7, 20\]; set a smaller kernel"):
        make("conv", [3, 7, 20], channels=4, kernel=8)


def test_vectors_are_refused(make):
    with pytest.raises(Misfit, match=r"needs a picture \[channels, height, width\], not 'a' \[7\]"):
        make("conv", [7], channels=4)


@pytest.mark.parametrize("side", [2, 3, 4, 5, 11, 35, 36, 84])
def test_every_picture_from_two_pixels_on_has_layers_that_fit(make, side):
    tower = make("conv_tower", [3, side, side + 2])
    rows = torch.randn(2, 3, side, side + 2)
    assert tower(rows).shape == (2, *tower.output.shape)
    assert (len(layers_for(side)) == 3) == (side >= 36)


def test_atari_pictures_get_the_layers_of_the_paper(make):
    tower = make("conv_tower", [4, 84, 84])
    assert [(layer.out_channels, layer.kernel_size[0], layer.stride[0]) for layer in tower.layers] == [
        (32, 8, 4),
        (64, 4, 2),
        (64, 3, 1),
    ]
    rows = torch.randn(1, 4, 84, 84)
    expected = nn.Sequential(*(module for layer in tower.layers for module in (layer, nn.ReLU())))(rows)
    torch.testing.assert_close(tower(rows), expected)
    assert tower.output.shape == (64, 7, 7)


def test_layers_of_ones_own_that_shrink_the_picture_away_are_refused_by_number(make):
    with pytest.raises(Misfit, match="layer 2 has a kernel of 4, but its picture is only 3 x 3"):
        make("conv_tower", [1, 8, 8], layers=[[4, 4, 2], [4, 4, 1]])
