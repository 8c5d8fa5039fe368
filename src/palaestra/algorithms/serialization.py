"""Arrays, big integers and random generators as basic containers and tensors.

A trainer state is read back with `torch.load(weights_only=True)`, which knows tensors and builtin containers, and
nothing of NumPy. So arrays are stored as their bytes, and integers of 128 bits as text. While torch is not imported,
an array stands for the tensor that checkpoints/torch_file.py writes in its place.
"""

from __future__ import annotations

import json
import random
import sys
from itertools import pairwise
from struct import pack
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.lazy_import import lazy_import

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
else:
    torch = lazy_import("torch")

ARRAY = "__array__"


def has_torch() -> bool:
    return "torch" in sys.modules


def as_tensor(array: NDArray[Any]) -> Any:
    """Not copied."""
    return torch.from_numpy(array) if has_torch() else array


def encode_arrays(data: Any) -> Any:
    """Arrays and NumPy scalars anywhere inside become bytes with dtype and shape."""
    match data:
        case dict():
            return {key: encode_arrays(value) for key, value in data.items()}
        case list():
            return [encode_arrays(value) for value in data]
        case tuple():
            return tuple(encode_arrays(value) for value in data)
        case np.ndarray():
            raw = np.frombuffer(bytearray(data.tobytes()), np.uint8) if data.size else np.empty(0, np.float32)
            return {ARRAY: str(data.dtype), "shape": list(data.shape), "bytes": as_tensor(raw)}
        case np.generic():
            return encode_arrays(np.asarray(data)) | {"scalar": True}
        case _:
            return data


def decode_arrays(data: Any) -> Any:
    match data:
        case {"__array__": str(dtype), "shape": shape, "bytes": raw}:
            array = np.frombuffer(raw.numpy().tobytes(), dtype=dtype).reshape(shape).copy()
            return array[()] if data.get("scalar") else array
        case dict():
            return {key: decode_arrays(value) for key, value in data.items()}
        case list():
            return [decode_arrays(value) for value in data]
        case tuple():
            return tuple(decode_arrays(value) for value in data)
        case _:
            return data


def serialize(data: Any) -> bytes:
    """For another process: builtin containers, numbers, text, bytes and arrays, without torch and without pickle."""
    blobs: list[bytes] = []
    text = json.dumps(_encode(data, blobs))
    head = json.dumps([len(text), [len(blob) for blob in blobs]])
    return b"\n".join([head.encode(), text.encode() + b"".join(blobs)])


def deserialize(data: bytes) -> Any:
    """What `serialize` was given."""
    head, _, rest = data.partition(b"\n")
    length, sizes = json.loads(head)
    ends = np.cumsum([length, *sizes]).tolist()
    blobs = [rest[first:last] for first, last in pairwise(ends)]
    return _decode(json.loads(rest[:length]), blobs)


def _encode(value: Any, blobs: list[bytes]) -> Any:
    """Numbers and text as they are; everything else as a list of its kind and what it holds."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return ["dict", [[_encode(key, blobs), _encode(item, blobs)] for key, item in value.items()]]
        case list() | tuple():
            return [type(value).__name__, [_encode(item, blobs) for item in value]]
        case np.ndarray():
            blobs.append(value.tobytes())
            return ["array", [value.dtype.str, list(value.shape), len(blobs) - 1]]
        case bytes():
            blobs.append(value)
            return ["bytes", len(blobs) - 1]
    raise TypeError(f"a {type(value).__name__} cannot be serialized")


def _decode(value: Any, blobs: list[bytes]) -> Any:
    match value:
        case ["dict", pairs]:
            return {_decode(key, blobs): _decode(item, blobs) for key, item in pairs}
        case ["list", items]:
            return [_decode(item, blobs) for item in items]
        case ["tuple", items]:
            return tuple(_decode(item, blobs) for item in items)
        case ["array", [dtype, shape, number]]:
            return np.frombuffer(blobs[number], dtype).reshape(shape).copy()
        case ["bytes", number]:
            return blobs[number]
    return value


def generator_state(generator: np.random.Generator) -> str:
    return json.dumps(generator.bit_generator.state)


def set_generator_state(generator: np.random.Generator, state: str) -> None:
    generator.bit_generator.state = json.loads(state)


def global_random_state(seed: int = 0) -> dict[str, Any]:
    """Of the three global generators. Our own code draws from none of them; an environment or a network may.

    `seed` is that of the run: while torch is not imported, nothing can have drawn from its generator.
    """
    version, numbers, gauss = random.getstate()
    words = as_tensor(np.array(numbers, np.int64))  # 625 numbers one by one would be most of a trainer state
    return {
        "python": [version, words, gauss],
        "numpy": encode_arrays(np.random.get_state(legacy=False)),
        "torch": torch.get_rng_state() if has_torch() else seeded_torch_state(seed),
    }


def set_global_random_state(state: dict[str, Any]) -> None:
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(torch.as_tensor(numbers).tolist()), gauss))  # older states have a list
    np.random.set_state(decode_arrays(state["numpy"]))
    torch.set_rng_state(state["torch"])


WORDS = 624  # of a Mersenne twister
LOW_WORD = 2**32 - 1


def seeded_torch_state(seed: int) -> NDArray[np.uint8]:
    """What torch's CPU generator gives as `get_state()` after `manual_seed(seed)`, computed without torch.

    The seed, the Mersenne twister's words as NumPy seeds them too, and no cached normal deviate.
    """
    words = np.random.RandomState(seed & LOW_WORD).get_state(legacy=False)["state"]["key"]
    left, is_seeded, following = 1, 1, 0  # the words are used up: the first draw makes new ones
    head = pack("<QiiQ", seed, left, is_seeded, following)
    no_normals = bytes(3 * 8 + 8)  # x, y and rho of doubles, and whether they count
    no_single = bytes(8)  # of singles
    raw = head + np.asarray(words, np.uint64).tobytes() + no_normals + no_single
    return np.frombuffer(bytearray(raw), np.uint8)
