import numpy as np
import pytest

from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.spaces import empty_rows, feature_specs, interface_of_agent, observation_space, row_of
from palaestra.apps.arena.tables import FEATURES

KNOBS = [
    {},
    {"agents": 24, "teams": 2, "team_share": 0.5, "combat": True},
    {"width": 60, "height": 40, "room": 7},
    {"altar": {"count": 9, "cost": 0}, "rewards": {"ore": 0.1}, "max_steps": 9, "sight": 2, "show_state": False},
]


@pytest.mark.parametrize("form", ["bytes", "tokens", "box"])
def test_spaces_stay_the_same_over_every_knob_of_difficulty(form):
    interfaces = [interface_of_agent(read_settings({"observation": form, **knobs})) for knobs in KNOBS]
    assert all(interface == interfaces[0] for interface in interfaces)


@pytest.mark.parametrize(
    ("form", "shapes"),
    [("bytes", {"cells": (7, 7), "self": (9,)}), ("tokens", (40, 3)), ("box", (23, 7, 7))],
)
def test_shapes_are_those_of_the_page(form, shapes):
    space = observation_space(read_settings({"observation": form, "view": 7, "tokens": 40}))
    assert ({name: part.shape for name, part in space.items()} if form == "bytes" else space.shape) == shapes


@pytest.mark.parametrize("form", ["bytes", "tokens", "box"])
def test_an_empty_row_is_an_observation(form):
    settings = read_settings({"observation": form})
    rows = empty_rows(settings, 5)
    observations = row_of(rows, 4)
    assert observation_space(settings).contains(observations)
    part = observations["cells"] if form == "bytes" else observations
    part[:] = 1
    assert not np.any((rows["cells"] if form == "bytes" else rows) == 1)  # it was a copy


def test_tokens_and_channels_have_names_and_codes_have_none():
    names = {form: feature_specs(read_settings({"observation": form})) for form in ("bytes", "tokens", "box")}
    assert names == {"bytes": (), "tokens": FEATURES, "box": FEATURES}
