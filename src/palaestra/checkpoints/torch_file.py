"""Weights and trainer states as torch would write them, from NumPy arrays and without torch.

A native training has everything in arrays; importing torch to write them down takes longer than fifty of its updates.
The files are the same kind as those of weights.py, which reads them: safetensors, and the zip of `torch.save` with one
pickle of plain containers.
"""

from __future__ import annotations

import zipfile
from functools import lru_cache
from io import BytesIO
from itertools import chain
from struct import pack
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save as safetensors_save

from palaestra.core.errors import NonFinite, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

MAX_DEPTH = 32
FORMAT_VERSION = b"3\n"
WRITTEN_AT = (1980, 1, 1, 0, 0, 0)  # a zip's earliest: the same state gives the same bytes
WHAT_IT_HOLDS = "a trainer state holds only dict, list, tuple, arrays, numbers, text, bytes and None."
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
    """By the names of the policy's state_dict, as they are at this instant; NaN and infinity are refused."""
    for name, part in weights.items():
        if part.dtype.kind == "f" and not np.isfinite(part).all():
            raise NonFinite(f"The weights '{name}' hold NaN or infinity.", "The checkpoints before are as they were.")
    return bytes(safetensors_save({name: np.array(part, order="C") for name, part in weights.items()}))


def trainer_state_to_bytes(state: Mapping[str, Any]) -> bytes:
    """Plain containers, numbers, text and arrays; anything else is refused now rather than when it is needed."""
    pickled = TensorPickle()
    try:
        pickled.add(dict(state))
    except UnsupportedType as refusal:
        where = "".join(f"[{part!r}]" for part in reversed(refusal.path))
        raise UsageError(f"trainer_state{where} {refusal.reason}") from refusal
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


class UnsupportedType(Exception):
    """Of a value somewhere inside; `path` grows on the way out, innermost first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[Any] = []


class TensorPickle:
    """A pickle of plain containers in which every array is a tensor of torch's, with a record of its own.

    Several tensors in one record would be fewer, but `torch.set_rng_state` reads from where the record begins.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = [PROTOCOL]
        self.records: list[bytes] = []

    def text(self) -> bytes:
        return b"".join([*self._parts, STOP])

    def add(self, value: Any, depth: int = 0) -> None:
        kind, parts = type(value), self._parts
        if depth > MAX_DEPTH:
            raise UnsupportedType(f"is nested deeper than {MAX_DEPTH} levels (or contains itself).")
        if kind is dict:
            parts += (EMPTY_DICT, MARK)
            self._add_items(value, chain.from_iterable(value.items()), depth + 1)
            parts.append(SET_ITEMS)
        elif kind is list:
            parts += (EMPTY_LIST, MARK)
            self._add_items(value, value, depth + 1)
            parts.append(APPENDS)
        elif kind is tuple:
            parts.append(MARK)
            self._add_items(value, value, depth + 1)
            parts.append(TUPLE)
        elif kind is np.ndarray:
            self._add_array(value)
        elif kind in SCALARS:
            parts.append(SCALARS[kind](value))
        else:
            raise UnsupportedType(f"is a {kind.__module__}.{kind.__qualname__}; {WHAT_IT_HOLDS}")

    def _add_items(self, container: Any, items: Iterable[Any], depth: int) -> None:
        """A crowd of environments has tens of thousands of scalars, so these are written without a further call."""
        write, scalar_of = self._parts.append, SCALARS.get
        number = -1
        try:
            for number, item in enumerate(items):  # noqa: B007  told where one is refused
                scalar = scalar_of(type(item))
                if scalar is not None:
                    write(scalar(item))
                else:
                    self.add(item, depth)
        except UnsupportedType as refusal:
            refusal.path.append(list(container)[number // 2] if type(container) is dict else number)
            raise

    def _add_array(self, array: NDArray[Any]) -> None:
        dtype = array.dtype.name
        if dtype not in STORAGES or not array.dtype.isnative:
            raise UnsupportedType(f"is an array of {array.dtype}, which is no tensor's.")
        storage = _storage(dtype, str(len(self.records)), array.size)
        self.records.append(array.tobytes())
        strides = np.empty(array.shape, np.uint8).strides  # of single bytes, so in numbers
        sizes = (_whole(0), _integers(array.shape), _integers(strides))
        self._parts += (REBUILD, MARK, storage, *sizes, FALSE, NO_HOOKS, TUPLE, REDUCE)


def _storage(dtype: str, key: str, count: int) -> bytes:
    kind = b"ctorch\n" + STORAGES[dtype].encode() + b"\n"
    return b"".join([MARK, _text("storage"), kind, _text(key), _text("cpu"), _whole(count), TUPLE, PERSISTENT])


@lru_cache(maxsize=1024)
def _text(text: str) -> bytes:
    """The few hundred names of attributes and kinds come back for every environment of a crowd."""
    encoded = text.encode("utf-8", "surrogatepass")
    return b"X" + pack("<I", len(encoded)) + encoded


def _whole(number: int) -> bytes:
    if -(2**31) <= number < 2**31:
        return b"J" + pack("<i", number)
    size = number.bit_length() // 8 + 1  # with room for the sign; at most 255 bytes
    return b"\x8a" + bytes((size,)) + number.to_bytes(size, "little", signed=True)


def _integers(numbers: tuple[int, ...]) -> bytes:
    return b"".join([MARK, *map(_whole, numbers), TUPLE])


def _bytes(raw: bytes) -> bytes:
    """Protocol 2 knows only text."""
    return b"".join([ENCODE, MARK, _text.__wrapped__(raw.decode("latin1")), LATIN1, TUPLE, REDUCE])


LATIN1 = _text("latin1")
SCALARS: dict[type, Callable[[Any], bytes]] = {
    str: _text,
    int: _whole,
    float: lambda number: b"G" + pack(">d", number),
    bool: lambda value: TRUE if value else FALSE,
    type(None): lambda _: NONE,
    bytes: _bytes,
}
