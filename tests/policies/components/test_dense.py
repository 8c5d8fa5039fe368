import math

import pytest
import torch
from pydantic import ValidationError

from palaestra.policies.components.base import Misfit


def test_a_linear_layer_works_on_the_last_axis(make):
    layer = make("linear", [5, 4], size=3, activation="tanh")
    rows = torch.randn(2, 5, 4)
    expected = torch.tanh(rows @ layer.layer.weight.T + layer.layer.bias)
    torch.testing.assert_close(layer(rows), expected)
    assert layer.output.shape == (5, 3)


def test_hidden_layers_begin_with_a_gain_of_root_two(make):
    weight = make("linear", [8], size=3).layer.weight
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(3), atol=1e-5, rtol=0)


def test_a_tower_is_its_layers_one_after_another(make):
    tower = make("mlp", [4], hidden=[6, 5], activation="relu")
    rows = torch.randn(3, 4)
    expected = rows
    for layer in tower.layers:
        expected = torch.relu(layer(expected))
    torch.testing.assert_close(tower(rows), expected)
    assert tower.output.shape == (5,)
    assert sum(weights.numel() for weights in tower.parameters()) == 5 * 6 + 7 * 5


def test_a_tower_without_layers_changes_nothing(make):
    rows = torch.randn(3, 4)
    assert torch.equal(make("mlp", [4], hidden=[])(rows), rows)


def test_a_residual_block_adds_to_what_it_is_given(make):
    tower = make("residual", [6], blocks=2, expansion=2.0)
    assert tower.blocks[0].widen.out_features == 12
    rows = torch.randn(3, 6)
    assert not torch.equal(tower(rows), rows)
    for block in tower.blocks:
        torch.nn.init.zeros_(block.narrow.weight)
    assert torch.equal(tower(rows), rows)


def test_a_residual_block_sees_normalised_numbers(make):
    tower = make("residual", [6], blocks=1, activation="none")
    rows = torch.randn(3, 6)
    added = tower(rows) - rows
    torch.testing.assert_close(tower(100 * rows) - 100 * rows, added, atol=1e-3, rtol=1e-3)


def test_pictures_must_be_flattened_first(make):
    with pytest.raises(Misfit, match=r"'a' \[2, 3, 3\]; put a flatten node"):
        make("mlp", [2, 3, 3])


def test_a_single_number_has_no_last_axis(make):
    with pytest.raises(Misfit, match="single number"):
        make("linear", [], size=2)


@pytest.mark.parametrize("settings", [{"size": 0}, {"size": 3, "gain": 0}, {"size": 3, "activation": "rleu"}])
def test_settings_out_of_range_are_refused(make, settings):
    with pytest.raises(ValidationError):
        make("linear", [4], **settings)
    assert math.sqrt(2) == pytest.approx(make("linear", [4], size=1).layer.weight.norm().item())


def test_layer_normalisation_stands_before_the_activation(make):
    tower = make("mlp", [4], hidden=[6, 5], activation="relu", layer_norm=True)
    for norm in tower.norms:
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    rows = torch.randn(3, 4)
    expected = rows
    for layer, norm in zip(tower.layers, tower.norms, strict=True):
        outputs = layer(expected)
        centred = outputs - outputs.mean(dim=-1, keepdim=True)
        normal = centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        expected = torch.relu(normal * norm.weight + norm.bias)
    torch.testing.assert_close(tower(rows), expected)


def test_every_layer_but_the_first_adds_its_input_in_a_residual_tower(make):
    tower = make("mlp", [6], hidden=[6, 6, 6], activation="tanh", residual=True)
    rows = torch.randn(3, 6)
    first, second, third = tower.layers
    expected = torch.tanh(first(rows))
    expected = expected + torch.tanh(second(expected))
    expected = expected + torch.tanh(third(expected))
    torch.testing.assert_close(tower(rows), expected)


def test_a_residual_tower_needs_equal_widths(make):
    with pytest.raises(Misfit, match=r"residual=true needs layers of one width, not hidden=\[120, 84\]"):
        make("mlp", [4], hidden=[120, 84], residual=True)
