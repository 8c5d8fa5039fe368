"""Scheme files: Palaestra's JSON, catalogue JSON, and .npz as published by AlphaTensor or with members U, V and W.

Some files index the third factor by the transposed product; both readings are tried, and verification decides.

AlphaTensor's members are named "3,4,5" and hold u, v and w of shape [entries, rank]. Where the three differ in shape,
NumPy stores them as a pickle. It is never unpickled: the few opcodes that describe arrays are interpreted one by one,
and any other opcode is refused.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from dataclasses import replace
from math import isqrt, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers, parse_format, to_integers
from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, UsageError
from palaestra.runs.files import read_json

if TYPE_CHECKING:
    from pathlib import Path


DENOMINATORS = (1, 2, 4, 8, 16, 32, 64)


def read_schemes(path: Path, field: Field | None = None) -> dict[str, list[Factorization]]:
    """For each scheme of a file, by its key, the possible readings, the most likely first."""
    try:
        if path.suffix == ".npz":
            return {key: _table_readings(*parts, field) for key, parts in read_npz(path).items()}
        data = read_json(path)
        if not isinstance(data, dict):
            raise DamagedFile(f"{path} is not a scheme.", "Expected a JSON object with u, v and w.")
        return {"": _read_object(data, field)}
    except UsageError as error:
        raise DamagedFile(f"{path}: {error.message}", error.hint) from error


def encode_scheme(claim: Factorization) -> dict[str, Any]:
    """A scheme as JSON data."""
    return {
        "format": str(claim.format),
        "field": str(claim.field),
        "rank": claim.rank,
        "u": claim.u.tolist(),
        "v": claim.v.tolist(),
        "w": claim.w.tolist(),
        "denominators": list(claim.denominators),
    }


def decode_scheme(data: dict[str, Any]) -> Factorization:
    missing = [key for key in ("format", "field", "u", "v", "w") if key not in data]
    if missing:
        raise UsageError(f"The scheme has no {', '.join(missing)}.", "Was the file written by Palaestra?")
    u, v, w = (to_integers(data[key], key) for key in "uvw")
    denominators = data.get("denominators", [1, 1, 1])
    if not isinstance(denominators, list) or [type(one) for one in denominators] != [int] * 3:
        raise UsageError(f"Invalid denominators: {denominators!r}.", "Expected three positive integers.")
    first, second, third = denominators
    format_ = parse_format(str(data["format"]))
    return Factorization(format_, parse_field(str(data["field"])), u, v, w, (first, second, third))


def _read_object(data: dict[str, Any], field: Field | None) -> list[Factorization]:
    if "format" in data and "field" in data:
        claim = decode_scheme(data)
        return [claim if field is None else replace(claim, field=field)]
    sides = data.get("n")
    if not isinstance(sides, list) or [type(side) for side in sides] != [int] * 3 or not set("uvw") <= set(data):
        raise UsageError("Not a scheme.", "Expected format, field, u, v and w; or n, u, v and w as in catalogues.")
    u, v, w = (to_integers(data[key], key) for key in "uvw")
    stated = Field.GF2 if data.get("z2") is True else field
    return _readings(Format(*sides), u, v, w, stated)


def _table_readings(format_: Format, tables: Tables, field: Field | None) -> list[Factorization]:
    """Readings of a file's tables; fractions with a power of two become integers and a denominator."""
    scaled = [_integers_and_denominator(table) for table in tables]
    u, v, w = (numbers for numbers, _ in scaled)
    first, second, third = (denominator for _, denominator in scaled)
    if (first, second, third) == (1, 1, 1):
        return _readings(format_, u, v, w, field)
    thirds = (w, _transposed(w, format_))
    return [Factorization(format_, Field.Q, u, v, one, (first, second, third)) for one in thirds]


def _integers_and_denominator(table: NDArray[Any]) -> tuple[Integers, int]:
    for denominator in DENOMINATORS:
        scaled = table.astype(np.float64) * denominator if denominator > 1 else table
        if denominator == DENOMINATORS[-1] or (np.asarray(scaled) == np.round(scaled)).all():
            return to_integers(scaled), denominator
    raise AssertionError("the last denominator is always tried")


def _readings(format_: Format, u: Integers, v: Integers, w: Integers, field: Field | None) -> list[Factorization]:
    """Every possible field, the strictest first, with w as it is and transposed."""
    fields = [Field.ZT, Field.Z, Field.GF2] if field is None else [field]
    found = []
    for each in fields:
        claim = [factor % 2 if each is Field.GF2 else factor for factor in (u, v, w)]
        thirds = (claim[2], _transposed(claim[2], format_))
        found += [Factorization(format_, each, claim[0], claim[1], third) for third in thirds]
    return found


def _transposed(w: Integers, format_: Format) -> Integers:
    """w with each row transposed from [columns, rows] to [rows, columns]."""
    if w.ndim != 2 or w.shape[1] != format_.sizes[2]:
        return w  # Factorization refuses the shape
    transposed = w.reshape(len(w), format_.columns, format_.rows).transpose(0, 2, 1)
    return np.ascontiguousarray(transposed.reshape(len(w), -1))


Tables = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # u, v and w, [rank, entries]

MAX_BYTES = 256 << 20  # of all members, uncompressed; AlphaTensor's largest file has 30 MB
NUMERIC_KINDS = "iufb"
OBJECT = "O"
FACTOR_NAMES = ("u", "v", "w")


def read_npz(path: Path) -> dict[str, tuple[Format, Tables]]:
    """The format and the three tables of each scheme of a file, by its key."""
    if not path.is_file():
        raise NotFound(f"The file does not exist: {path}.")
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
                raise DamagedFile(f"{path} has more than {MAX_BYTES:,} bytes uncompressed.")
            members = {entry.filename.removesuffix(".npy"): archive.read(entry) for entry in archive.infolist()}
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
        raise DamagedFile(f"{path} is not a .npz file: {error}.") from error
    names_by_lower = {name.lower(): name for name in members}
    if set(names_by_lower) == set(FACTOR_NAMES):
        u, v, w = (_array(members[names_by_lower[name]], names_by_lower[name]) for name in FACTOR_NAMES)
        return {"": _from_tables(u, v, w)}
    return {key: _from_member(key, content) for key, content in members.items()}


def _from_member(key: str, content: bytes) -> tuple[Format, Tables]:
    try:
        format_ = parse_format(key.replace(",", "x"))
    except UsageError as error:
        raise UsageError(
            f"The member '{key}' is not a scheme.", "Expected names such as 3,4,5, or U, V and W."
        ) from error
    array = _array(content, key)
    if len(array) != 3 or any(np.ndim(part) != 2 for part in array):
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
