"""Weights and trainer states as torch would write them, from NumPy arrays and without torch.

A native training has everything in arrays; importing torch to write them down takes longer than fifty of its updates.
The files are the same kind as those of weights.py, which reads them: safetensors, and the zip of `torch.save` with one
pickle of plain containers.
"""

from __future__ import annotations

import zipfile
from io import BytesIO
from struct import pack
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save as safetensors_save

from palaestra.contracts.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

MAX_DEPTH = 32
FORMAT_VERSION = b"3\n"
WRITTEN_AT = (1980, 1, 1, 0, 0, 0)  # a zip's earliest: the same state gives the same bytes
STORAGES = {
    "bool": "BoolStorage",
    "uint8": "ByteStorage",
    "int8": "CharStorage",
    "int16": "ShortStorage",
    "int32": "IntStorage",
    "int64": "LongStorage",
    "float16": "HalfStorage",
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
}
# Opcodes of pickle's protocol 2, the one that torch writes and reads.
PROTOCOL, STOP, MARK = b"\x80\x02", b".", b"("
NONE, TRUE, FALSE = b"N", b"\x88", b"\x89"
EMPTY_DICT, SET_ITEMS, EMPTY_LIST, APPENDS, EMPTY_TUPLE, TUPLE = b"}", b"u", b"]", b"e", b")", b"t"
REDUCE, PERSISTENT = b"R", b"Q"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
ENCODE = b"c_codecs\nencode\n"
NO_HOOKS = b"ccollections\nOrderedDict\n" + EMPTY_TUPLE + REDUCE


def policy_to_bytes(weights: Mapping[str, NDArray[Any]]) -> bytes:
    """By the names of the policy's state_dict, as they are at this instant."""
    return bytes(safetensors_save({name: np.array(part, order="C") for name, part in weights.items()}))


def trainer_state_to_bytes(state: Mapping[str, Any]) -> bytes:
    """Plain containers, numbers, text and arrays; anything else is refused now rather than when it is needed."""
    pickled = TensorPickle()
    pickled.add(dict(state), "trainer_state", 0)
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as file:
        _put(file, "data.pkl", pickled.text())
        _put(file, "byteorder", b"little")
        for key, data in enumerate(pickled.records):
            _put(file, f"data/{key}", data)
        _put(file, "version", FORMAT_VERSION)
    return stream.getvalue()


def _put(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    file.writestr(zipfile.ZipInfo(f"archive/{name}", WRITTEN_AT), data)


class TensorPickle:
    """A pickle of plain containers in which every array is a tensor of torch's, with a record of its own.

    Several tensors in one record would be fewer, but `torch.set_rng_state` reads from where the record begins.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = [PROTOCOL]
        self.records: list[bytes] = []

    def text(self) -> bytes:
        return b"".join([*self._parts, STOP])

    def add(self, value: Any, where: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise UsageError(f"{where} is nested deeper than {MAX_DEPTH} levels (or contains itself).")
        kind = type(value)
        if kind is dict:
            self._parts += (EMPTY_DICT, MARK)
            for key, item in value.items():
                self.add(key, f"{where} key", depth + 1)
                self.add(item, f"{where}[{key!r}]", depth + 1)
            self._parts.append(SET_ITEMS)
        elif kind is list or kind is tuple:
            self._parts += (EMPTY_LIST, MARK) if kind is list else (MARK,)
            for index, item in enumerate(value):
                self.add(item, f"{where}[{index}]", depth + 1)
            self._parts.append(APPENDS if kind is list else TUPLE)
        elif kind is np.ndarray:
            self._add_array(value, where)
        else:
            self._parts.append(_plain(value, where))

    def _add_array(self, array: NDArray[Any], where: str) -> None:
        dtype = array.dtype.name
        if dtype not in STORAGES or not array.dtype.isnative:
            raise UsageError(f"{where} is an array of {array.dtype}, which is no tensor's.")
        storage = _storage(dtype, str(len(self.records)), array.size)
        self.records.append(array.tobytes())
        strides = np.empty(array.shape, np.uint8).strides  # of single bytes, so in numbers
        sizes = (_whole(0), _wholes(array.shape), _wholes(strides))
        self._parts += (REBUILD, MARK, storage, *sizes, FALSE, NO_HOOKS, TUPLE, REDUCE)


def _storage(dtype: str, key: str, count: int) -> bytes:
    kind = b"ctorch\n" + STORAGES[dtype].encode() + b"\n"
    return b"".join([MARK, _text("storage"), kind, _text(key), _text("cpu"), _whole(count), TUPLE, PERSISTENT])


def _plain(value: Any, where: str) -> bytes:
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is int:
        return _whole(value)
    if kind is float:
        return b"G" + pack(">d", value)
    if kind is bool:
        return TRUE if value else FALSE
    if value is None:
        return NONE
    if kind is bytes:  # protocol 2 knows only text
        return b"".join([ENCODE, MARK, _text(value.decode("latin1")), LATIN1, TUPLE, REDUCE])
    raise UsageError(
        f"{where} is a {kind.__module__}.{kind.__qualname__}; a trainer state holds only dict, list, tuple, arrays, "
        "numbers, text, bytes and None.",
    )


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return b"X" + pack("<I", len(encoded)) + encoded


LATIN1 = _text("latin1")


def _whole(number: int) -> bytes:
    if -(2**31) <= number < 2**31:
        return b"J" + pack("<i", number)
    size = number.bit_length() // 8 + 1  # with room for the sign; at most 255 bytes
    return b"\x8a" + bytes((size,)) + number.to_bytes(size, "little", signed=True)


def _wholes(numbers: tuple[int, ...]) -> bytes:
    return b"".join([MARK, *map(_whole, numbers), TUPLE])
