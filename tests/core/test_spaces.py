from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.core.errors import DamagedFile
from palaestra.core.spaces import (
    BoxSpec,
    DictSpec,
    DiscreteSpec,
    EnvInterface,
    FeatureSpec,
    MultiDiscreteSpec,
    decode_interface,
    decode_space,
    encode_interface,
    encode_space,
)


@pytest.mark.parametrize(("shape", "size"), [((), 1), ((4,), 4), ((2, 3, 4), 24), ((3, 0), 0)])
def test_the_size_of_a_box_is_the_count_of_its_numbers(shape, size):
    assert BoxSpec(shape).size == size


small = st.integers(1, 5)
numbers = st.floats(-10, 10)
boxes = st.builds(
    BoxSpec,
    shape=st.lists(small, max_size=3).map(tuple),
    dtype=st.sampled_from(["float32", "uint8"]),
    low=st.lists(numbers, min_size=1, max_size=3).map(tuple),
    high=st.lists(numbers, min_size=1, max_size=3).map(tuple),
)
leaves = (
    boxes
    | st.builds(DiscreteSpec, count=small, start=st.integers(-3, 3))
    | st.builds(MultiDiscreteSpec, counts=st.lists(small, min_size=1).map(tuple))
)
spaces = st.recursive(
    leaves,
    lambda inner: st.builds(DictSpec, parts=st.lists(st.tuples(st.text(min_size=1), inner), max_size=3).map(tuple)),
    max_leaves=4,
)


@given(spaces)
def test_a_space_goes_through_json_unchanged(space):
    assert decode_space(json.loads(json.dumps(encode_space(space)))) == space


@given(spaces, leaves)
def test_an_interface_goes_through_json_unchanged(observation, action):
    interface = EnvInterface(observation, action, (FeatureSpec("speed", 3, 10.0),))
    assert decode_interface(json.loads(json.dumps(encode_interface(interface)))) == interface


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "box"},
        {"kind": "os.system"},
        {"kind": "discrete", "count": "x", "start": 0},
        {"kind": "dict", "parts": [1]},
        {"kind": "discrete", "count": float("inf"), "start": 0},
        {"kind": "box", "shape": [float("inf")], "dtype": "float32", "low": [], "high": []},
    ],
)
def test_what_describes_no_space_is_refused(data):
    with pytest.raises(DamagedFile):
        decode_space(data)


def test_an_interface_without_its_parts_is_refused():
    with pytest.raises(DamagedFile):
        decode_interface({"observation_space": encode_space(DiscreteSpec(2))})
