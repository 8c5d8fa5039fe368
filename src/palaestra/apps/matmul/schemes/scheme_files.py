"""Scheme files: Palaestra's JSON, catalogue JSON, `.npz`, and text; see `npz_files` and `text_files`.

Some files index the third factor by the transposed product; both readings are tried, and verification decides. Nothing
in a file is executed, and no file may be larger than `MAX_SCHEME_BYTES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.schemes.coefficients import MAX_ROWS, claim_from_arrays, claim_from_rows
from palaestra.apps.matmul.schemes.factorization import (
    LARGEST_COEFFICIENT,
    Factorization,
    Format,
    parse_format,
    to_integers,
    with_tables,
)
from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.apps.matmul.schemes.npz_files import read_npz
from palaestra.apps.matmul.schemes.rings import (
    can_convert,
    convert,
    holding_fields,
    strictest_field,
    with_primitive_rows,
)
from palaestra.apps.matmul.schemes.text_files import TEXT_READERS
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.runs.files import read_bounded, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

MAX_SCHEME_BYTES = 32 << 20
SUFFIXES = (".json", ".npz", *TEXT_READERS)


def read_schemes(path: Path, field: Field | None = None) -> dict[str, list[Factorization]]:
    """For each scheme of a file, by its key, the possible readings, the most likely first."""
    return dict(iterate_schemes(path, field))


def iterate_schemes(path: Path, field: Field | None = None) -> Iterator[tuple[str, list[Factorization]]]:
    """Like `read_schemes`, one scheme at a time."""
    try:
        if path.suffix == ".npz":
            for key, format_, tables in read_npz(path):
                yield key, readings(claim_from_arrays(format_, tables), field)
        elif path.suffix in TEXT_READERS:
            text = read_bounded(path, MAX_SCHEME_BYTES).decode("utf-8", errors="replace")
            yield "", readings(TEXT_READERS[path.suffix](text), field)
        else:
            data = read_json(path, MAX_SCHEME_BYTES)
            if not isinstance(data, dict):
                raise DamagedFile(f"{path} is not a scheme.", "Expected a JSON object with u, v and w.")
            yield "", _read_object(data, field)
    except UsageError as error:
        raise DamagedFile(f"{path}: {error.message}", error.hint) from error


def readings(raw: Factorization, field: Field | None = None) -> list[Factorization]:
    """A file's tables, over q or qi, as claims: the strictest field first, with w as it is and transposed.

    Without `field` these are the strictest field of the coefficients, gf2 and z3.
    """
    primitive = with_primitive_rows(raw)
    strictest = strictest_field(primitive)
    wanted = [strictest, Field.GF2, Field.Z3] if field is None else [field]
    possible = [each for each in wanted if can_convert(primitive, each)]
    if not possible:
        raise UsageError(
            f"The coefficients do not fit the field {field}.",
            f"They fit {', '.join(holding_fields(primitive))}.",
        )
    return [claim for each in possible for claim in _with_both_thirds(convert(primitive, each))]


def encode_scheme(claim: Factorization) -> dict[str, Any]:
    """A scheme as JSON data."""
    data = {
        "format": str(claim.format),
        "field": str(claim.field),
        "rank": claim.rank,
        "u": claim.u.tolist(),
        "v": claim.v.tolist(),
        "w": claim.w.tolist(),
        "denominators": list(claim.denominators),
    }
    if claim.imaginary is not None:
        data["imaginary"] = {name: part.tolist() for name, part in zip("uvw", claim.imaginary, strict=True)}
    return data


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
    field = parse_field(str(data["field"]))
    return Factorization(format_, field, u, v, w, (first, second, third), _decode_imaginary(data))


def _decode_imaginary(data: dict[str, Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    parts = data.get("imaginary")
    if parts is None:
        return None
    if not isinstance(parts, dict) or set(parts) != set("uvw"):
        raise UsageError("Invalid imaginary parts.", "Expected an object with u, v and w.")
    u, v, w = (to_integers(parts[key], f"imaginary {key}") for key in "uvw")
    return u, v, w


def _read_object(data: dict[str, Any], field: Field | None) -> list[Factorization]:
    """Our own JSON, that of an archive's entry, or a catalogue's."""
    if isinstance(data.get("scheme"), dict):
        data = data["scheme"]
    if "format" in data and "field" in data:
        claim = decode_scheme(data)
        return [claim if field is None else convert(claim, field)]
    sides = data.get("n")
    if not isinstance(sides, list) or [type(side) for side in sides] != [int] * 3 or not set("uvw") <= set(data):
        raise UsageError("Not a scheme.", "Expected format, field, u, v and w; or n, u, v and w as in catalogues.")
    format_ = Format(*sides)
    tables = _evaluated(data, format_) if "u_fresh" in data else [data[key] for key in "uvw"]
    if not all(isinstance(table, list) for table in tables):
        raise UsageError("u, v and w are not tables of numbers.", "Expected lists of rows.")
    stated = Field.GF2 if data.get("z2") is True else field
    return readings(claim_from_rows(format_, tables), stated)


MAX_ENTRIES = 1 << 24  # of the tables of a reduced scheme


def _evaluated(data: dict[str, Any], format_: Format) -> list[list[list[int]]]:
    """The tables of a catalogue's reduced scheme, whose rows refer to intermediate sums (`u_fresh`, …)."""
    rank = data.get("m")
    if type(rank) is not int or not 0 < rank <= MAX_ROWS:
        raise UsageError(f"Invalid number of multiplications: {rank!r}.", f"Expected 1 to {MAX_ROWS:,}.")
    try:
        u, v = (
            _expanded(data[f"{key}_fresh"], data[key], size) for key, size in zip("uv", format_.sizes[:2], strict=True)
        )
        w = _expanded(data["w_fresh"], data["w"], rank)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise UsageError(f"The reduced scheme is damaged: {error!r}.", "Expected lists of index and value.") from error
    return [u.tolist(), v.tolist(), w.T.tolist()]


def _expanded(fresh: list[Any], rows: list[Any], inputs: int) -> NDArray[np.int64]:
    """The linear forms over the inputs, [rows, inputs]."""
    if (inputs + len(fresh) + len(rows)) * inputs > MAX_ENTRIES:
        raise ValueError("too many rows")
    values = np.zeros((inputs + len(fresh), inputs), dtype=np.int64)
    values[:inputs] = np.eye(inputs, dtype=np.int64)
    for place, terms in enumerate(fresh):
        values[inputs + place] = _sum_of_terms(terms, values[: inputs + place])
    return np.stack([_sum_of_terms(terms, values) for terms in rows])


def _sum_of_terms(terms: list[dict[str, int]], values: NDArray[np.int64]) -> NDArray[np.int64]:
    total = np.zeros(values.shape[1], dtype=np.int64)
    for term in terms:
        index, value = term["index"], term["value"]
        if not 0 <= index < len(values) or abs(value) > LARGEST_COEFFICIENT:
            raise IndexError(f"index {index}, value {value}")
        total += value * values[index]
    if np.abs(total).max(initial=0) > LARGEST_COEFFICIENT:
        raise ValueError("a coefficient is too large")
    return total


def _with_both_thirds(claim: Factorization) -> list[Factorization]:
    """The claim, and with each row of w transposed from [columns, rows] to [rows, columns]."""
    rows, columns = claim.format.rows, claim.format.columns
    if 1 in (rows, columns):
        return [claim]
    third = claim.tables[2].reshape(claim.rank, columns, rows).transpose(0, 2, 1).reshape(claim.rank, -1)
    return [claim, with_tables(claim, (*claim.tables[:2], third))]
