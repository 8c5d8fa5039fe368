"""Schemes in files: our own JSON, a catalogue's JSON, and .npz as AlphaTensor published them.

Others index the third factor by the transposed product. Which way a file has it is settled by the proof: what holds
one way cannot hold the other way by accident.
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

from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers, parse_format, whole_numbers
from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, UsageError
from palaestra.runs.files import read_json

if TYPE_CHECKING:
    from pathlib import Path


DENOMINATORS = (1, 2, 4, 8, 16, 32, 64)


def read_schemes(path: Path, field: Field | None = None) -> dict[str, list[Factorization]]:
    """For each scheme of a file (by its key there) the readings that could be meant, the likeliest first."""
    try:
        if path.suffix == ".npz":
            return {key: _table_readings(*parts, field) for key, parts in read_npz(path).items()}
        data = read_json(path)
        if not isinstance(data, dict):
            raise DamagedFile(f"{path} does not hold a scheme.", "A JSON object with u, v and w is wanted.")
        return {"": _read_object(data, field)}
    except UsageError as error:
        raise DamagedFile(f"{path}: {error.message}", error.hint) from error


def encode_scheme(claim: Factorization) -> dict[str, Any]:
    """Our own JSON."""
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
        raise UsageError(f"A scheme lacks {', '.join(missing)}.", "Is it one of ours?")
    u, v, w = (whole_numbers(data[key], key) for key in "uvw")
    denominators = data.get("denominators", [1, 1, 1])
    if not isinstance(denominators, list) or [type(one) for one in denominators] != [int] * 3:
        raise UsageError(f"The denominators are {denominators!r}.", "Three positive whole numbers are wanted.")
    first, second, third = denominators
    format_ = parse_format(str(data["format"]))
    return Factorization(format_, parse_field(str(data["field"])), u, v, w, (first, second, third))


def _read_object(data: dict[str, Any], field: Field | None) -> list[Factorization]:
    if "format" in data and "field" in data:
        claim = decode_scheme(data)
        return [claim if field is None else replace(claim, field=field)]
    sides = data.get("n")
    if not isinstance(sides, list) or [type(side) for side in sides] != [int] * 3 or not set("uvw") <= set(data):
        raise UsageError("This is no scheme.", "Wanted are format, field, u, v and w; or a catalogue's n, u, v and w.")
    u, v, w = (whole_numbers(data[key], key) for key in "uvw")
    stated = Field.GF2 if data.get("z2") is True else field
    return _readings(Format(*sides), u, v, w, stated)


def _table_readings(format_: Format, tables: Tables, field: Field | None) -> list[Factorization]:
    """Tables of numbers as a file has them; fractions of a power of two become whole numbers and a denominator."""
    scaled = [_whole_and_denominator(table) for table in tables]
    u, v, w = (numbers for numbers, _ in scaled)
    first, second, third = (denominator for _, denominator in scaled)
    if (first, second, third) == (1, 1, 1):
        return _readings(format_, u, v, w, field)
    thirds = (w, _transposed(w, format_))
    return [Factorization(format_, Field.Q, u, v, one, (first, second, third)) for one in thirds]


def _whole_and_denominator(table: NDArray[Any]) -> tuple[Integers, int]:
    for denominator in DENOMINATORS:
        scaled = table.astype(np.float64) * denominator if denominator > 1 else table
        if denominator == DENOMINATORS[-1] or (np.asarray(scaled) == np.round(scaled)).all():
            return whole_numbers(scaled), denominator
    raise AssertionError("the last denominator is always tried")


def _readings(format_: Format, u: Integers, v: Integers, w: Integers, field: Field | None) -> list[Factorization]:
    """Every field that the coefficients allow, the strictest first; the third factor both ways."""
    fields = [Field.ZT, Field.Z, Field.GF2] if field is None else [field]
    found = []
    for each in fields:
        claim = [factor % 2 if each is Field.GF2 else factor for factor in (u, v, w)]
        thirds = (claim[2], _transposed(claim[2], format_))
        found += [Factorization(format_, each, claim[0], claim[1], third) for third in thirds]
    return found


def _transposed(w: Integers, format_: Format) -> Integers:
    """From [columns, rows] to [rows, columns], row by row of the scheme."""
    if w.ndim != 2 or w.shape[1] != format_.sizes[2]:
        return w  # refused by its shape a moment later
    turned = w.reshape(len(w), format_.columns, format_.rows).transpose(0, 2, 1)
    return np.ascontiguousarray(turned.reshape(len(w), -1))


Tables = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # u, v and w, [rank, entries]

MAX_BYTES = 256 << 20  # of all members, unpacked; AlphaTensor's largest file has 30 MB
NUMERIC_KINDS = "iufb"
OBJECT = "O"
PLAIN_NAMES = ("u", "v", "w")


def read_npz(path: Path) -> dict[str, tuple[Format, Tables]]:
    """For each scheme of the file, by its key there, the format and its three tables."""
    if not path.is_file():
        raise NotFound(f"The file does not exist: {path}.")
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
                raise DamagedFile(f"{path} holds more than {MAX_BYTES:,} bytes unpacked.")
            members = {entry.filename.removesuffix(".npy"): archive.read(entry) for entry in archive.infolist()}
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
        raise DamagedFile(f"{path} is not a .npz file: {error}.") from error
    plain = {name.lower(): name for name in members}
    if set(plain) == set(PLAIN_NAMES):
        u, v, w = (_array(members[plain[name]], plain[name]) for name in PLAIN_NAMES)
        return {"": _from_tables(u, v, w)}
    return {key: _from_member(key, content) for key, content in members.items()}


def _from_member(key: str, content: bytes) -> tuple[Format, Tables]:
    try:
        format_ = parse_format(key.replace(",", "x"))
    except UsageError as error:
        raise UsageError(
            f"The member '{key}' is not a scheme.", "Members are called 3,4,5 as AlphaTensor's are, or U, V and W."
        ) from error
    array = _array(content, key)
    if len(array) != 3 or any(np.ndim(part) != 2 for part in array):
        raise UsageError(f"'{key}' has the shape {list(array.shape)}.", "u, v and w as [3, entries, rank] are wanted.")
    u, v, w = (np.ascontiguousarray(part.T) for part in array)
    return format_, (u, v, w)


def _from_tables(*tables: NDArray[Any]) -> tuple[Format, Tables]:
    """The format follows from the numbers of entries; the rank is the side that all three share."""
    if any(table.ndim != 2 for table in tables):
        raise UsageError("U, V and W are not tables.", "They are [rank, entries] or [entries, rank].")
    for turned in (tables, tuple(table.T for table in tables)):
        format_ = _format_of([table.shape[1] for table in turned])
        if format_ is not None and len({len(table) for table in turned}) == 1:
            u, v, w = (np.ascontiguousarray(table) for table in turned)
            return format_, (u, v, w)
    shapes = ", ".join(str(list(table.shape)) for table in tables)
    raise UsageError(
        f"U, V and W of shapes {shapes} fit no product of matrices.",
        "For NxMxP they are [rank, N*M], [rank, M*P] and [rank, N*P], or the same transposed.",
    )


def _format_of(sizes: list[int]) -> Format | None:
    """rows*inner, inner*columns and rows*columns give each side: rows² = first * third / second."""
    first, second, third = sizes
    squares = (first * third, second), (first * second, third), (second * third, first)
    sides = [isqrt(product // size) if size and product % size == 0 else 0 for product, size in squares]
    rows, inner, columns = sides
    fits = (rows * inner, inner * columns, rows * columns) == (first, second, third)
    return Format(rows, inner, columns) if fits and 0 not in sides else None


def _array(content: bytes, name: str) -> NDArray[Any]:
    """One member as an array of numbers, or of three arrays of numbers."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(stream)
        if dtype.kind == OBJECT:
            return _read_arrays(stream.read()).numbers(name)
        if dtype.kind not in NUMERIC_KINDS or dtype.itemsize * prod(shape) != len(content) - stream.tell():
            raise DamagedFile(f"'{name}' is {dtype} of shape {list(shape)}, and not as long as that.")
        array = np.frombuffer(content, dtype, offset=stream.tell())
        return array.reshape(shape, order="F" if is_fortran else "C")
    except RefusedFile:
        raise
    except (ValueError, EOFError, TypeError, IndexError, AttributeError, KeyError) as error:
        raise DamagedFile(f"'{name}' is not an array: {error}.") from error


class _Described:
    """An array or a type of numbers, as a pickle describes it: what it would call, with what, and the state it sets."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.state: Any = None

    def numbers(self, name: str) -> NDArray[Any]:
        """An array from its bytes; as many as its shape says, or it is refused."""
        _, shape, dtype, is_fortran, data = self.state
        if isinstance(data, list):
            if not all(isinstance(part, _Described) for part in data):
                raise RefusedFile(f"'{name}' holds other Python objects than arrays.", "Save arrays of whole numbers.")
            found = np.empty(len(data), object)
            for place, part in enumerate(data):
                found[place] = part.numbers(name)
            return found
        code, order = str(dtype.arguments[0]), str(dtype.state[1])
        kind = np.dtype(f"{order if order in '<>' else '='}{code}")
        if kind.kind not in NUMERIC_KINDS or not isinstance(data, bytes) or kind.itemsize * prod(shape) != len(data):
            raise DamagedFile(f"'{name}' holds {code} of shape {list(shape)}, and not as many bytes.")
        return np.frombuffer(data, kind).reshape(shape, order="F" if is_fortran else "C")


ARRAY_NAMES = frozenset(
    {"numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"}
)
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES")
_MARK = object()


def _read_arrays(content: bytes) -> _Described:
    """What a pickle of arrays describes. Its instructions are read one by one, and none of them calls anything."""
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
                stack.append(tuple(_taken(stack, TUPLES[name])))
            case "TUPLE":
                stack.append(tuple(_since_mark(stack)))
            case "EMPTY_LIST":
                stack.append([])
            case "APPENDS":
                items = _since_mark(stack)
                stack[-1].extend(items)
            case "REDUCE":
                arguments = stack.pop()
                stack[-1] = _Described(arguments)
            case "BUILD":
                state = stack.pop()
                stack[-1].state = state
            case name if name in CONSTANTS:
                stack.append(CONSTANTS[name])
            case name if name in VALUES:
                stack.append(value)
            case name:
                raise RefusedFile(f"The file holds other Python objects than arrays ({name}).", "It is not read.")
    (described,) = stack
    if not isinstance(described, _Described):
        raise RefusedFile("The file holds other Python objects than arrays.", "It is not read.")
    return described


def _allowed(name: str) -> str:
    if name not in ARRAY_NAMES:
        raise RefusedFile(f"The file asks for {name.replace(' ', '.')}, and not only for arrays.", "It is not read.")
    return name


def _taken(stack: list[Any], count: int) -> list[Any]:
    taken = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return taken


def _since_mark(stack: list[Any]) -> list[Any]:
    place = len(stack) - 1 - stack[::-1].index(_MARK)
    taken = stack[place + 1 :]
    del stack[place:]
    return taken
