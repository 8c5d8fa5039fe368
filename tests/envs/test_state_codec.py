from __future__ import annotations

import random
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from palaestra.checkpoints.weights import trainer_state_from_bytes, trainer_state_to_bytes
from palaestra.core.errors import DamagedFile
from palaestra.envs.state_codec import MAX_DEPTH, Decoder, Encoder, UnsupportedValue


def round_trip(value):
    """Through the very file format that trainer states are saved in."""
    saved = trainer_state_to_bytes({"value": Encoder().encode(value, "value")})
    return Decoder().decode(trainer_state_from_bytes(saved, "a test")["value"])


def is_same(one, other):
    """Equal in type and in every bit, which `==` is not: 1 == 1.0 == np.float32(1), and NaN is not NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict):
        return is_same(list(one.keys()), list(other.keys())) and is_same(list(one.values()), list(other.values()))
    return repr(one) == repr(other)


dtypes = st.sampled_from(
    ["bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64", "complex64", "S3", "U2"]
)
arrays = dtypes.flatmap(lambda name: arrays_of.arrays(name, arrays_of.array_shapes(min_dims=0, max_side=3, min_side=0)))
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5) | arrays
values = st.recursive(
    leaves,
    lambda part: (
        st.lists(part, max_size=3)
        | st.tuples(part, part)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.tuples(st.integers()), part, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_values_round_trip_with_type_and_every_bit(value):
    assert is_same(round_trip(value), value)


@pytest.mark.parametrize(
    "value", [np.float32(0.1), np.float64("nan"), np.int8(-3), np.bool(True), np.str_("ab"), -0.0, 2**200]
)
def test_scalars_keep_their_type(value):
    assert is_same(round_trip(value), value)


@pytest.mark.parametrize("name", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_a_generator_goes_on_where_it_was(name):
    dice = np.random.Generator(getattr(np.random, name)(7))
    dice.integers(10, size=3, dtype=np.int32)  # leaves half of a 64-bit draw behind in some
    copy = round_trip(dice)
    assert (
        copy.integers(1 << 31, size=9, dtype=np.int32).tolist()
        == dice.integers(1 << 31, size=9, dtype=np.int32).tolist()
    )
    assert copy.normal(size=5).tolist() == dice.normal(size=5).tolist()


def test_pythons_own_generator_continues_where_it_was():
    dice = random.Random(3)
    dice.gauss()
    copy = round_trip(dice)
    assert [copy.gauss(), copy.random()] == [dice.gauss(), dice.random()]


def test_two_names_of_one_object_stay_two_names_of_one_object():
    shared = np.zeros(2)
    copy = round_trip({"a": shared, "b": [shared], "dice": (dice := np.random.default_rng(0)), "again": dice})
    copy["a"][0] = 5
    assert copy["b"][0][0] == 5
    assert copy["dice"] is copy["again"]


def test_a_list_that_contains_itself_is_no_endless_story():
    loop: list[object] = [1]
    loop.append(loop)
    copy = round_trip(loop)
    assert copy[1] is copy


def test_what_is_nested_too_deep_for_the_file_is_refused_before():
    nested: list[object] = [1]
    for _ in range(MAX_DEPTH - 1):
        nested = [nested]
    as_saved_in_training = {"envs": {"envs": [{"layers": [{"state": {"x": Encoder().encode(nested, "x")}}]}]}}
    back = trainer_state_from_bytes(trainer_state_to_bytes(as_saved_in_training), "a test")
    assert Decoder().decode(back["envs"]["envs"][0]["layers"][0]["state"]["x"]) == nested
    with pytest.raises(UnsupportedValue, match="nested deeper"):
        Encoder().encode([[nested]], "x")


def test_a_queue_keeps_its_limit():
    copy = round_trip(deque([1, 2], maxlen=2))
    copy.append(3)
    assert list(copy) == [2, 3]


def test_memory_order_and_read_only_flags_are_preserved():
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    fortran.flags.writeable = False
    copy = round_trip(fortran)
    assert copy.flags.f_contiguous
    assert not copy.flags.c_contiguous
    assert not copy.flags.writeable
    assert copy.tolist() == fortran.tolist()


def test_a_later_change_does_not_reach_what_was_captured():
    array = np.ones(3)
    saved = Encoder().encode(array, "array")
    array[:] = 9
    assert Decoder().decode(saved).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "builtins.object, not plain data"),
        (np.array([object()]), "dtype object"),
        (np.zeros(2, [("x", "f4")]), "dtype"),
        ({"b", "a"}, "set whose order"),
        (lambda: 1, "function"),
        (np.ma.masked_array([1]), "MaskedArray"),
        (np.frombuffer(bytearray(8)), "view into memory of a"),
    ],
)
def test_unsupported_values_are_refused_with_their_path(value, reason):
    with pytest.raises(UnsupportedValue, match=rf"env\.x\['k'\]\[1\] .*{reason}"):
        Encoder().encode({"k": [0, value]}, "env.x")


def test_two_views_of_one_memory_are_refused_by_both_names():
    state = np.zeros(4)
    with pytest.raises(UnsupportedValue, match=r"x\['speed'\] shares its memory with x\['state'\]"):
        Encoder().encode({"state": state, "speed": state[2:]}, "x")


def test_a_set_of_numbers_keeps_the_order_it_is_walked_in():
    assert list(round_trip({5, 1, 9})) == list({5, 1, 9})


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "module", "name": "os"},
        {},
        [],
        {
            "kind": "array",
            "number": 0,
            "dtype": "O",
            "shape": [1],
            "order": "C",
            "writeable": True,
            "data": bytes(8),
        },
        {
            "kind": "array",
            "number": 0,
            "dtype": "f8",
            "shape": [99],
            "order": "C",
            "writeable": True,
            "data": bytes(8),
        },
        {"kind": "same", "as": 7},
        {"kind": "generator", "number": 0, "name": "Evil", "state": {}},
        {"kind": "scalar", "dtype": "f8", "data": "text"},
    ],
)
def test_a_mangled_state_is_refused(data):
    with pytest.raises(DamagedFile):
        Decoder().decode(data)
