"""`.npz` files as published by AlphaTensor, or with members U, V and W.

AlphaTensor's members are named "3,4,5" and hold u, v and w of shape [entries, rank]; its non-equivalent schemes are one
member [schemes, rank, 3, entries]. Where u, v and w differ in shape, NumPy stores them as a pickle. It is never
unpickled: the few opcodes that describe arrays are interpreted one by one, and any other opcode is refused.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
import zlib
from math import isqrt, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaestra.apps.matmul.schemes.factorization import Format, parse_format
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Tables = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # u, v and w, [rank, entries]

MAX_BYTES = 256 << 20  # of all members, uncompressed; AlphaTensor's largest file has 30 MB
NUMERIC_KINDS = "iufcb"
OBJECT = "O"
FACTOR_NAMES = ("u", "v", "w")


def read_npz(path: Path) -> Iterator[tuple[str, Format, Tables]]:
    """The key, the format and the three tables of each scheme of a file."""
    if not path.is_file():
        raise NotFound(f"The file does not exist: {path}.")
    members = _read_members(path)
    names_by_lower = {name.lower(): name for name in members}
    if set(names_by_lower) == set(FACTOR_NAMES):
        u, v, w = (_array(members[names_by_lower[name]], names_by_lower[name]) for name in FACTOR_NAMES)
        yield "", *_from_tables(u, v, w)
        return
    for key, content in members.items():
        array = _array(content, key)
        if array.ndim == 4:
            yield from _from_stack(key, array)
        else:
            yield key, *_from_member(key, array)


def _read_members(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
                raise DamagedFile(f"{path} has more than {MAX_BYTES:,} bytes uncompressed.")
            return {entry.filename.removesuffix(".npy"): archive.read(entry) for entry in archive.infolist()}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise DamagedFile(f"{path} is not a .npz file: {error}.") from error


def _from_stack(key: str, array: NDArray[Any]) -> Iterator[tuple[str, Format, Tables]]:
    """Schemes for square matrices, [schemes, rank, 3, entries]."""
    side = isqrt(array.shape[3])
    if array.shape[2] != 3 or side * side != array.shape[3]:
        raise UsageError(f"'{key}' has shape {list(array.shape)}.", "Expected [schemes, rank, 3, entries].")
    for index, scheme in enumerate(array):
        u, v, w = (scheme[:, at] for at in range(3))
        yield f"{key}[{index}]", Format(side, side, side), (u, v, w)


def _from_member(key: str, array: NDArray[Any]) -> tuple[Format, Tables]:
    try:
        format_ = parse_format(key.replace(",", "x"))
    except UsageError as error:
        raise UsageError(
            f"The member '{key}' is not a scheme.", "Expected names such as 3,4,5, or U, V and W."
        ) from error
    if array.shape[:1] != (3,) or any(np.ndim(part) != 2 for part in array):
        raise UsageError(f"'{key}' has shape {list(array.shape)}.", "Expected u, v and w as [3, entries, rank].")
    u, v, w = (np.ascontiguousarray(part.T) for part in array)
    return format_, (u, v, w)


def _from_tables(*tables: NDArray[Any]) -> tuple[Format, Tables]:
    """Infers the format from the numbers of entries; the rank is the side that all three tables share."""
    if any(table.ndim != 2 for table in tables):
        raise UsageError("U, V and W must be two-dimensional.", "Expected [rank, entries] or [entries, rank].")
    for transposed in (tables, tuple(table.T for table in tables)):
        format_ = _format_of([table.shape[1] for table in transposed])
        if format_ is not None and len({len(table) for table in transposed}) == 1:
            u, v, w = (np.ascontiguousarray(table) for table in transposed)
            return format_, (u, v, w)
    shapes = ", ".join(str(list(table.shape)) for table in tables)
    raise UsageError(
        f"U, V and W of shapes {shapes} do not match any matrix product.",
        "For NxMxP expected [rank, N*M], [rank, M*P] and [rank, N*P], or the transposes.",
    )


def _format_of(sizes: list[int]) -> Format | None:
    """Solves rows*inner, inner*columns, rows*columns for the sides: rows² = first * third / second."""
    first, second, third = sizes
    squares = (first * third, second), (first * second, third), (second * third, first)
    sides = [isqrt(product // size) if size and product % size == 0 else 0 for product, size in squares]
    rows, inner, columns = sides
    fits = (rows * inner, inner * columns, rows * columns) == (first, second, third)
    return Format(rows, inner, columns) if fits and 0 not in sides else None


def _array(content: bytes, name: str) -> NDArray[Any]:
    """A member as an array of numbers, or an object array of three such arrays."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(stream)
        if dtype.kind == OBJECT:
            return _read_arrays(stream.read()).numbers(name)
        if dtype.kind not in NUMERIC_KINDS or dtype.itemsize * prod(shape) != len(content) - stream.tell():
            raise DamagedFile(f"'{name}': the size does not match {dtype} of shape {list(shape)}.")
        array = np.frombuffer(content, dtype, offset=stream.tell())
        return array.reshape(shape, order="F" if is_fortran else "C")
    except RefusedFile:
        raise
    except (ValueError, EOFError, TypeError, IndexError, AttributeError, KeyError) as error:
        raise DamagedFile(f"'{name}' is not an array: {error}.") from error


class _PickledArray:
    """An array or dtype as a pickle describes it: the arguments of its constructor and its state."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.state: Any = None

    def numbers(self, name: str) -> NDArray[Any]:
        """The described array, if its bytes match its shape."""
        _, shape, dtype, is_fortran, data = self.state
        if isinstance(data, list):
            if not all(isinstance(part, _PickledArray) for part in data):
                raise RefusedFile(f"'{name}' contains Python objects that are not arrays.", "Save arrays of integers.")
            found = np.empty(len(data), object)
            for place, part in enumerate(data):
                found[place] = part.numbers(name)
            return found
        code, order = str(dtype.arguments[0]), str(dtype.state[1])
        kind = np.dtype(f"{order if order in '<>' else '='}{code}")
        if kind.kind not in NUMERIC_KINDS or not isinstance(data, bytes) or kind.itemsize * prod(shape) != len(data):
            raise DamagedFile(f"'{name}': the size does not match {code} of shape {list(shape)}.")
        return np.frombuffer(data, kind).reshape(shape, order="F" if is_fortran else "C")


ARRAY_NAMES = frozenset(
    {"numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"}
)
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES")
_MARK = object()


def _read_arrays(content: bytes) -> _PickledArray:
    """Interprets a pickle of arrays opcode by opcode; no opcode calls anything."""
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    for instruction, value, _ in pickletools.genops(content):
        match instruction.name:
            case "PROTO" | "FRAME":
                continue
            case "STOP":
                break
            case "MARK":
                stack.append(_MARK)
            case "GLOBAL":
                stack.append(_allowed(str(value)))
            case "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                stack.append(_allowed(f"{module} {name}"))
            case "BINPUT" | "LONG_BINPUT":
                memo[value] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[value])
            case name if name in TUPLES:
                stack.append(tuple(_pop(stack, TUPLES[name])))
            case "TUPLE":
                stack.append(tuple(_pop_to_mark(stack)))
            case "EMPTY_LIST":
                stack.append([])
            case "APPENDS":
                items = _pop_to_mark(stack)
                stack[-1].extend(items)
            case "REDUCE":
                arguments = stack.pop()
                stack[-1] = _PickledArray(arguments)
            case "BUILD":
                state = stack.pop()
                stack[-1].state = state
            case name if name in CONSTANTS:
                stack.append(CONSTANTS[name])
            case name if name in VALUES:
                stack.append(value)
            case name:
                raise RefusedFile(f"The file contains Python objects that are not arrays ({name}).", "It is refused.")
    (described,) = stack
    if not isinstance(described, _PickledArray):
        raise RefusedFile("The file contains Python objects that are not arrays.", "It is refused.")
    return described


def _allowed(name: str) -> str:
    if name not in ARRAY_NAMES:
        raise RefusedFile(f"The file refers to {name.replace(' ', '.')}; only arrays are allowed.", "It is refused.")
    return name


def _pop(stack: list[Any], count: int) -> list[Any]:
    items = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return items


def _pop_to_mark(stack: list[Any]) -> list[Any]:
    place = len(stack) - 1 - stack[::-1].index(_MARK)
    items = stack[place + 1 :]
    del stack[place:]
    return items
