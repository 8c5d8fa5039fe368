import json
import struct

import pytest
import torch
from safetensors.torch import save

from palaestra.checkpoints.safetensors_header import TensorInfo, looks_like_safetensors, read_header
from palaestra.core.errors import DamagedFile


def made(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape, begin, end):
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


def test_the_header_of_a_true_file_is_read():
    data = save({"w": torch.zeros(2, 3), "empty": torch.zeros(0), "scalar": torch.tensor(1)}, {"made by": "us"})
    assert looks_like_safetensors(data[:64], len(data))
    assert read_header(data, len(data), "x") == {
        "w": TensorInfo("F32", (2, 3)),
        "empty": TensorInfo("F32", (0,)),
        "scalar": TensorInfo("I64", ()),
    }


@pytest.mark.fault("C14")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        made(b"{}", length=2**63 - 1),
        made(b"{}", length=200 << 20),
        made(b"\xff\xfe not json"),
        made(b"[1, 2]"),
        made({"w": entry([1 << 20], 0, 4 << 20)}, bytes(16)),
        made({"w": entry([-1], 0, 4)}, bytes(4)),
        made({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12)),
        made({"a": entry([1], 0, 4)}, bytes(64)),
        made({"a": entry([1], 4, 0)}, bytes(4)),
        made({"a": entry(["1"], 0, 4)}, bytes(4)),
        made({"a": [1]}, bytes(4)),
        made(b'{"a": 1, "a": 2}'),
        made(b'{"a": %b, "a": %b}' % ((json.dumps(entry([1], 0, 4)).encode(),) * 2), bytes(4)),
        made(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        made({f"t{index}": entry([0], 0, 0) for index in range(20_001)}),
        made({"a": entry([2**62, 4], 0, 0)}),
        made({"a": entry([2**62, 4], 0, 4)}, bytes(4)),
        made({"a": entry([0, 2**62], 0, 0)}),
        made({"a": entry([2], 0, 4)}, bytes(4)),
        made({"a": {**entry([2], 0, 8), "dtype": "F64"}}, bytes(8)),
        made({"a": {**entry([2], 0, 8), "dtype": "F33"}}, bytes(8)),
        made({"a": entry([1] * 65, 0, 4)}, bytes(4)),
        made({"a": entry([10**4000] * 1000, 0, 4)}, bytes(4)),
    ],
    ids=range(25),
)
def test_a_header_that_lies_is_refused(data):
    with pytest.raises(DamagedFile):
        read_header(data, len(data), "x")


def test_limits_may_be_reached_and_not_passed():
    most = made({f"t{index}": entry([0], 0, 0) for index in range(20_000)})
    assert len(read_header(most, len(most), "x")) == 20_000
    for length, is_read in ((4 << 20, True), ((4 << 20) + 1, False)):
        padded = made(b"{}".ljust(length))
        if is_read:
            assert read_header(padded, len(padded), "x") == {}
        else:
            with pytest.raises(DamagedFile, match="more than 4194304 bytes"):
                read_header(padded, len(padded), "x")
    for size, is_read in ((1000, True), (1001, False)):
        named = made({"n" * size: entry([0], 0, 0)})
        if is_read:
            assert list(read_header(named, len(named), "x")) == ["n" * size]
        else:
            with pytest.raises(DamagedFile):
                read_header(named, len(named), "x")


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (made(b"{}"), True),
        (made(b"{}", length=3), False),
        (made(b"[]"), False),
        (made(b"{}", bytes(9)), True),
        (b"", False),
    ],
)
def test_a_file_that_begins_like_one_looks_like_one(data, is_one):
    assert looks_like_safetensors(data[:64], len(data)) is is_one


@pytest.mark.parametrize(
    "header",
    [
        {"a": entry([1], 4, 8)},  # a hole before
        {"a": entry([1], 0, 4), "b": entry([1], 5, 8)},  # and one between
        {"a": entry([1], 0, 4), "b": entry([1], 3, 8)},
        {"a": entry([True], 0, 8)},
    ],
)
def test_what_does_not_tile_the_file_is_refused(header):
    data = made(header, bytes(8))
    with pytest.raises(DamagedFile, match="cannot be read"):
        read_header(data, len(data), "x")
