"""Schemes in files: our own JSON, a catalogue's JSON, and .npz as AlphaTensor published them.

Others index the third factor by the transposed product. Which way a file has it is settled by the proof: what holds
one way cannot hold the other way by accident.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.factorization import Factorization, Integers, whole_numbers
from palaestra.apps.matmul.field import Field, parse_field
from palaestra.apps.matmul.format import Format, parse_format
from palaestra.apps.matmul.npz_file import Tables, read_npz
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.runs.files import read_json

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

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
