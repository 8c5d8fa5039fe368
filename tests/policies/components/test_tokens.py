import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, FeatureSpec
from palaestra.policies.components.base import Misfit, Signal
from palaestra.policies.components.tokens import TokenGrid, TokenGridSettings, fourier_table

FEATURES = (FeatureSpec("wall", 0, 1.0), FeatureSpec("ore", 3, 10.0), FeatureSpec("heart", 7, 4.0))


def signal(count=5, features=FEATURES):
    return Signal("observation", (count, 3), BoxSpec((count, 3), "uint8", (0.0,), (255.0,)), features)


def tokens(*rows):
    return torch.tensor([rows], dtype=torch.uint8)


def test_coordinates_are_waves_that_tell_all_places_apart():
    table = fourier_table(4)
    assert table.shape == (256, 16)
    y, x = 3 / 15 * 2 - 1, 12 / 15 * 2 - 1
    row = table[3 << 4 | 12]
    expected = [math.sin(math.pi / 2 * 2**k * axis) for axis in (y, x) for k in range(4)]
    assert row[:8].tolist() == pytest.approx(expected, abs=1e-5)
    assert (torch.cdist(table, table) + torch.eye(256)).min() > 0.1


def test_a_token_is_its_place_its_feature_and_its_normalised_value(make):
    node = make("tokens", signal(2), frequencies=2, size=4)
    out = node(tokens((0x21, 3, 200), (255, 0, 9)))
    assert out.shape == (1, 2, 8 + 4 + 1)
    torch.testing.assert_close(out[0, 0, :8], fourier_table(2)[0x21])
    torch.testing.assert_close(out[0, 0, 8:12], node.table.weight[3])
    assert out[0, 0, 12] == 20.0, "200 / 10, which bytes could not hold as a fraction"
    assert out.dtype == torch.float32


def test_an_empty_token_is_nothing_wherever_it_stands(make):
    node = make("tokens", signal(3), frequencies=2, size=4)
    out = node(tokens((255, 3, 200), (0x21, 3, 200), (255, 7, 1)))
    assert not out[0, [0, 2]].any()
    torch.testing.assert_close(out[0, 1], node(tokens((0x21, 3, 200), (255, 0, 0), (255, 0, 0)))[0, 0])


def test_which_tokens_are_there(make):
    present = make("tokens_present", signal(3))
    assert present(tokens((255, 3, 200), (0, 0, 0), (254, 7, 1))).tolist() == [[0.0, 1.0, 1.0]]


token = st.tuples(st.integers(0, 255), st.integers(0, 9), st.integers(0, 255))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(token, min_size=6, max_size=6), min_size=1, max_size=3))
def test_a_grid_of_tokens_is_what_filling_it_cell_by_cell_gives(batch):
    interface = EnvInterface(signal().space, DiscreteSpec(2))
    node = TokenGrid((signal(6),), TokenGridSettings(height=11, width=9), interface)
    norms = {feature.id: feature.normalization for feature in FEATURES}
    expected = torch.zeros(len(batch), 8, 11, 9)
    for row, given_tokens in enumerate(batch):
        for coordinate, feature, value in given_tokens:
            y, x = divmod(coordinate, 16)
            if coordinate != 255 and y < 11 and x < 9 and feature < 8:
                expected[row, feature, y, x] += value / norms.get(feature, 1.0)
    torch.testing.assert_close(node(torch.tensor(batch, dtype=torch.uint8)), expected)


def test_a_grid_without_names_has_a_channel_for_every_byte(make):
    assert make("token_grid", signal(features=()), height=3, width=4).output.shape == (256, 3, 4)
    assert make("token_grid", signal(), channels=5).output.shape == (5, 11, 11)


@pytest.mark.parametrize("kind", ["tokens", "tokens_present", "token_grid"])
def test_other_observations_are_refused_with_the_policy_that_fits(make, kind):
    with pytest.raises(Misfit, match=r"not 'observation' \[4\].*policy=mlp"):
        make(kind, Signal("observation", (4,), BoxSpec((4,))))
