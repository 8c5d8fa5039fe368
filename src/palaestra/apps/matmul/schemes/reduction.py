"""Removes redundant rows of a scheme: rows that share one factor while another of their factors is linearly dependent.

If x is shared and y3 = a y1 + b y2, then (x, y3, z3) can be added to z1 and z2. Exact over gf2, z3 and the rationals.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.coefficients import claim_from_rows
from palaestra.apps.matmul.schemes.rings import convert, strictest_field, with_primitive_rows
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization

Vector = tuple[Fraction, ...]
Row = list[Vector]  # three factors


def reduce_rows(claim: Factorization) -> Factorization:
    """The scheme without redundant rows, over its own field or a stricter one."""
    if claim.field.is_complex:
        raise UsageError(f"Rows over {claim.field} cannot be reduced.", "Only real fields are supported.")
    prime = claim.field.characteristic
    rows = _rows(claim)
    while _remove_one(rows, prime):
        pass
    if prime:
        tables = [np.array([[int(value) for value in row[at]] for row in rows], dtype=np.int64) for at in range(3)]
        u, v, w = (table - prime * (table > prime // 2) if prime > 2 else table for table in tables)
        return replace(claim, u=u, v=v, w=w)
    raw = claim_from_rows(claim.format, [[[str(value) for value in row[at]] for row in rows] for at in range(3)])
    primitive = with_primitive_rows(raw)
    return convert(primitive, strictest_field(primitive))


def _rows(claim: Factorization) -> list[Row]:
    tables = []
    for factor, denominator in zip(claim.factors, claim.denominators, strict=True):
        tables.append([tuple(Fraction(value, denominator) for value in row) for row in factor.tolist()])
    return [[_modulo(part, claim.field.characteristic) for part in row] for row in zip(*tables, strict=True)]


def _remove_one(rows: list[Row], prime: int) -> bool:
    """Removes one redundant row in place; False if there is none."""
    for shared in range(3):
        groups: dict[Vector, list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(_normalized(row[shared], prime), []).append(place)
        for places in groups.values():
            if len(places) > 1 and any(_merge(rows, places, shared, y, prime) for y in range(3) if y != shared):
                return True
    return False


def _merge(rows: list[Row], places: list[int], shared: int, dependent: int, prime: int) -> bool:
    """Removes the first of the rows whose factor `dependent` is a combination of those before it."""
    z = 3 - shared - dependent
    basis: list[tuple[Vector, dict[int, Fraction]]] = []  # reduced vectors, and what they are combinations of
    for place in places:
        vector, combination = _modulo(rows[place][dependent], prime), {place: Fraction(1)}
        for known, parts in basis:
            pivot = next(at for at, value in enumerate(known) if value)
            factor = _divide(vector[pivot], known[pivot], prime)
            vector = _modulo(tuple(a - factor * b for a, b in zip(vector, known, strict=True)), prime)
            for other, share in parts.items():
                combination[other] = combination.get(other, Fraction(0)) - factor * share
        if any(vector):
            basis.append((vector, combination))
            continue
        _distribute(rows, place, combination, shared, z, prime)
        return True
    return False


def _distribute(rows: list[Row], gone: int, combination: dict[int, Fraction], shared: int, z: int, prime: int) -> None:
    """Adds the row `gone` to the others, where the sum of combination[k] times their vectors is 0; then removes it."""
    for other, share in combination.items():
        if other == gone or not share:
            continue
        ratio = _ratio(rows[gone][shared], rows[other][shared], prime)  # x of the gone row = ratio * x of the other
        added = _divide(-share, combination[gone], prime) * ratio
        sums = tuple(a + added * b for a, b in zip(rows[other][z], rows[gone][z], strict=True))
        rows[other] = [_modulo(sums, prime) if at == z else part for at, part in enumerate(rows[other])]
    del rows[gone]
    rows[:] = [row for row in rows if all(any(part) for part in row)]


def _normalized(vector: Vector, prime: int) -> Vector:
    first = next(value for value in vector if value)
    return tuple(_divide(value, first, prime) for value in vector)


def _ratio(one: Vector, other: Vector, prime: int) -> Fraction:
    at = next(place for place, value in enumerate(other) if value)
    return _divide(one[at], other[at], prime)


def _divide(one: Fraction, other: Fraction, prime: int) -> Fraction:
    if not prime:
        return one / other
    return Fraction(int(one) * pow(int(other), -1, prime) % prime)


def _modulo(vector: Vector, prime: int) -> Vector:
    return tuple(value % prime for value in vector) if prime else vector
