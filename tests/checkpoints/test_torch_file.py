"""What is written without torch, torch itself reads: that is the independent way."""

import math
import zipfile
from io import BytesIO

import numpy as np
import pytest
import torch

from palaestra.checkpoints.torch_file import MAX_DEPTH, STORAGES, policy_to_bytes, trainer_state_to_bytes
from palaestra.checkpoints.weights import trainer_state_from_bytes, weights_from_bytes, weights_to_bytes
from palaestra.core.errors import NonFinite, UsageError


def through(state):
    return trainer_state_from_bytes(trainer_state_to_bytes(state))


@pytest.mark.parametrize("dtype", STORAGES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4), (1, 1), (0, 3)])
def test_arrays_of_every_kind_and_shape_become_tensors_of_it(dtype, shape):
    array = np.arange(math.prod(shape), dtype=np.float64).reshape(shape).astype(dtype)
    back = through({"before": np.ones(3, dtype), "it": array, "behind": np.ones(2, dtype)})
    expected = torch.from_numpy(array)
    assert back["it"].dtype == expected.dtype
    assert back["it"].shape == expected.shape
    assert back["it"].stride() == expected.stride() or not math.prod(shape)
    assert torch.equal(back["it"], expected)
    assert back["before"].tolist() == [1] * 3
    assert back["behind"].tolist() == [1] * 2


def test_an_array_that_is_a_view_comes_as_it_looks():
    turned = np.arange(6.0, dtype=np.float32).reshape(2, 3).T
    assert through({"turned": turned})["turned"].tolist() == turned.tolist()


def test_plain_values_come_back_as_they_were():
    values = {
        "numbers": [0, -1, 255, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63, 2**127 + 1, -(2**128)],
        "reals": [0.1, -0.0, math.inf, 1e-320],
        "texts": ["", "plain", "Grüße\n", "\ud800"],
        "bytes": [b"", b"plain", bytes(range(256))],
        "others": (None, True, False, (), [], {}, (1,), [[2]]),
        3: {"deep": {"deeper": ("a", [1.5])}},
    }
    back = through(values)
    assert back == values
    assert [type(one) for one in back["others"]] == [type(one) for one in values["others"]]
    assert math.copysign(1, back["reals"][1]) == -1
    assert math.isnan(through({"nan": math.nan})["nan"])


def test_nothing_is_compressed_and_the_same_state_gives_the_same_bytes():
    state = {"a": np.zeros(1000, np.float32), "b": np.ones(3, np.int64)}
    data = trainer_state_to_bytes(state)
    assert data == trainer_state_to_bytes(state)
    assert {entry.compress_type for entry in zipfile.ZipFile(BytesIO(data)).infolist()} == {zipfile.ZIP_STORED}


def test_every_tensor_has_a_storage_of_its_own():
    """`torch.set_rng_state` reads from where a storage begins, whatever tensor of it was given."""
    state = torch.Generator().manual_seed(7).get_state()
    back = through({"other": np.ones(3, np.uint8), "state": state.numpy(), "wide": np.ones(3, np.float64)})
    assert {part.storage_offset() for part in back.values()} == {0}
    generator = torch.Generator()
    generator.set_state(back["state"])
    assert generator.get_state().tolist() == state.tolist()


def test_arrays_are_copied():
    array = np.zeros(4, np.float32)
    data = trainer_state_to_bytes({"a": array})
    array[:] = 7
    assert trainer_state_from_bytes(data)["a"].tolist() == [0] * 4


@pytest.mark.parametrize(
    "value", [object(), {1}, np.float32(1), bytearray(b"raw"), np.zeros(2, "<U3"), np.zeros(2, ">f4"), 1j]
)
def test_what_no_trainer_state_holds_is_refused_by_its_place(value):
    with pytest.raises(UsageError, match=r"trainer_state\['deep'\]\[1\]"):
        trainer_state_to_bytes({"deep": [0, value]})


def test_what_contains_itself_is_refused():
    endless: dict = {}
    endless["self"] = endless
    with pytest.raises(UsageError, match=f"deeper than {MAX_DEPTH}"):
        trainer_state_to_bytes(endless)


def test_weights_are_the_bytes_that_torch_would_have_written():
    dice = np.random.default_rng(1)
    weights = {
        "b.weight": dice.standard_normal((3, 4)).astype(np.float32),
        "a.bias": dice.standard_normal(3).astype(np.float32),
        "turned": dice.standard_normal((4, 2)).astype(np.float32).T,
        "one": np.array(2.5, np.float32),
    }
    data = policy_to_bytes(weights)
    assert data == weights_to_bytes({name: torch.from_numpy(part) for name, part in weights.items()})
    assert weights_from_bytes(data)["turned"].tolist() == weights["turned"].tolist()


@pytest.mark.fault("R9")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_by_name(value):
    good, bad = np.zeros(3, np.float32), np.array([0.0, value], np.float32)
    with pytest.raises(NonFinite, match="'bad'"):
        policy_to_bytes({"good": good, "bad": bad})
    assert policy_to_bytes({"good": good, "counts": np.array([3])})
