from __future__ import annotations

import io
import random

import numpy as np
import pytest
import torch

from palaestra.algorithms import serialization
from palaestra.algorithms.serialization import seeded_torch_state


def through_a_file(data):
    stream = io.BytesIO()
    torch.save(data, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "uint64", "float16", "float64", "complex128", "<U5"]
)
def test_arrays_of_every_kind_survive_a_safe_load(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    back = serialization.decode_arrays(through_a_file(serialization.encode_arrays({"deep": [(array, None)]})))["deep"][
        0
    ][0]
    assert back.dtype == array.dtype
    assert back.tolist() == array.tolist()
    back[0, 0] = back[1, 1]  # and is writable


def test_numpy_scalars_empty_arrays_and_big_integers_survive():
    data = {"scalar": np.float64(0.1), "empty": np.zeros((0, 3), np.float32), "big": 2**127 + 1, "none": None}
    back = serialization.decode_arrays(through_a_file(serialization.encode_arrays(data)))
    assert back["scalar"] == 0.1
    assert isinstance(back["scalar"], np.float64)
    assert back["empty"].shape == (0, 3)
    assert back["big"] == 2**127 + 1


def test_a_generator_goes_on_with_the_same_numbers():
    generator = np.random.default_rng(5)
    generator.integers(10, size=3)  # leaves half of a 64-bit draw behind
    state = through_a_file(serialization.generator_state(generator))
    expected = generator.random(4).tolist() + generator.integers(1000, size=3, dtype=np.int32).tolist()
    other = np.random.default_rng(0)
    serialization.set_generator_state(other, state)
    assert other.random(4).tolist() + other.integers(1000, size=3, dtype=np.int32).tolist() == expected


def test_the_three_global_generators_go_on_with_the_same_numbers():
    before = serialization.global_random_state()
    draw = lambda: (random.gauss(0, 1), np.random.rand(), float(torch.rand(1)))  # noqa: E731
    random.gauss(0, 1)  # keeps a second number for the next call
    saved = through_a_file(serialization.global_random_state())
    expected = draw()
    serialization.set_global_random_state(saved)
    assert draw() == expected
    serialization.set_global_random_state(before)


def test_a_state_that_has_pythons_numbers_one_by_one_is_still_read():
    random.seed(4)
    saved = serialization.global_random_state()
    version, numbers, gauss = saved["python"]
    expected = random.random()
    serialization.set_global_random_state({**saved, "python": [version, numbers.tolist(), gauss]})
    assert random.random() == expected


def test_plain_values_come_out_of_another_process_as_they_were():
    given = {
        "numbers": [1, 2.5, -0.0, 2**100, True, None, float("inf")],
        "pair": (b"\x00\xff", "text\n", ()),
        7: {"nested": [np.arange(6, dtype=np.uint8).reshape(2, 3), np.array(1.5, np.float32), np.zeros((0, 4))]},
        "kind": ["list", ["dict", 3]],
    }
    taken = serialization.deserialize(serialization.serialize(given))
    arrays, others = given.pop(7)["nested"], taken.pop(7)["nested"]
    assert taken == given
    assert [type(part) for part in taken["numbers"]] == [type(part) for part in given["numbers"]]
    for one, other in zip(arrays, others, strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        assert other.flags.writeable


def test_what_is_not_plain_is_refused_instead_of_lost():
    with pytest.raises(TypeError, match="a set cannot be serialized"):
        serialization.serialize({"a": {1}})


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**32 - 1, 2**32 + 7, 2**63 - 1])
def test_it_is_what_torch_says_after_that_seed(seed):
    theirs = torch.Generator().manual_seed(seed).get_state()
    assert seeded_torch_state(seed).tolist() == theirs.tolist()


def test_a_generator_that_takes_it_draws_what_the_seed_draws():
    generator = torch.Generator().manual_seed(99)
    generator.set_state(torch.from_numpy(seeded_torch_state(7)))
    expected = torch.Generator().manual_seed(7)
    assert torch.rand(700, generator=generator).tolist() == torch.rand(700, generator=expected).tolist()
    assert torch.randn(5, generator=generator).tolist() == torch.randn(5, generator=expected).tolist()
