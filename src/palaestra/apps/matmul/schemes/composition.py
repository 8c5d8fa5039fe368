"""Composes schemes: joined along a side, extended, multiplied, and projected to a smaller format."""

from __future__ import annotations

from itertools import permutations, product
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaestra.apps.matmul.schemes.factorization import (
    Factorization,
    Format,
    Integers,
    naive_factorization,
    nonzero_rows,
    with_tables,
)
from palaestra.apps.matmul.schemes.fields import Field, invert_matrix
from palaestra.apps.matmul.schemes.rings import with_primitive_rows
from palaestra.apps.matmul.schemes.transformations import from_trace_form, permute_sides, trace_form
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

SIDES = ("rows", "inner", "columns")
CORNERS = ((0, 1), (1, 2), (0, 2))  # the sides of A, of B and of the product
Table = NDArray[Any]  # integers, or complex numbers with integer parts


def join_schemes(first: Factorization, second: Factorization, side: str) -> Factorization:
    """Concatenates two schemes along `side`; the other two sides must be equal."""
    at = SIDES.index(side)
    sides = list(first.format.sides)
    offsets = [0, 0, 0]
    offsets[at] = sides[at]
    sides[at] += second.format.sides[at]
    others = [k for k in range(3) if k != at]
    if first.field is not second.field or any(first.format.sides[k] != second.format.sides[k] for k in others):
        raise UsageError(
            f"Cannot join {first.format} over {first.field} and {second.format} over {second.field} along {side}.",
            "The field and the other two sides must be equal.",
        )
    whole = Format(sides[0], sides[1], sides[2])
    first, second = _with_one_denominator(first, second)
    tables = [
        np.concatenate(
            [_embedded(a, first.format, whole, pair, [0, 0, 0]), _embedded(b, second.format, whole, pair, offsets)]
        )
        for a, b, pair in zip(first.tables, second.tables, CORNERS, strict=True)
    ]
    return with_tables(first, tables, format=whole)


def extend(claim: Factorization, at: int) -> Factorization:
    """The scheme for a format with side `at` longer by one: joined with the naive scheme of the strip."""
    sides = list(claim.format.sides)
    sides[at] = 1
    return join_schemes(claim, naive_factorization(Format(*sides), claim.field), SIDES[at])


def tensor_product(first: Factorization, second: Factorization) -> Factorization:
    """The tensor product: the first scheme on blocks, with the second for each product of blocks."""
    if first.field is not second.field:
        raise UsageError(f"Cannot multiply schemes over {first.field} and {second.field}.", "The fields must be equal.")
    whole = Format(*(a * b for a, b in zip(first.format.sides, second.format.sides, strict=True)))
    tables = [
        _blocked(a, b, [first.format.sides[k] for k in pair], [second.format.sides[k] for k in pair])
        for a, b, pair in zip(first.tables, second.tables, CORNERS, strict=True)
    ]
    one, other, third = (a * b for a, b in zip(first.denominators, second.denominators, strict=True))
    made = with_tables(first, tables, format=whole, denominators=(one, other, third))
    return with_primitive_rows(made) if made.field.has_fractions else made


def _with_one_denominator(first: Factorization, second: Factorization) -> tuple[Factorization, Factorization]:
    """Both schemes with the same denominators, for fields with fractions."""
    if not first.field.has_fractions:
        return first, second
    first, second = with_primitive_rows(first), with_primitive_rows(second)
    common = lcm(first.denominators[2], second.denominators[2])
    one, other = (_scaled_third(each, common // each.denominators[2]) for each in (first, second))
    return one, other


def _scaled_third(claim: Factorization, factor: int) -> Factorization:
    u, v, w = claim.tables
    first, second, third = claim.denominators
    return with_tables(claim, (u, v, w * factor), denominators=(first, second, third * factor))


def find_tensor_products(format_: Format, known: Iterable[Factorization]) -> list[tuple[Factorization, int, int]]:
    """All tensor products of two known schemes for this format, with the indices of the two."""
    claims = list(known)
    found = []
    for i, one in enumerate(claims):
        for j, other in enumerate(claims):
            for sides in set(permutations(one.format.sides)):
                rest = [whole / part for whole, part in zip(format_.sides, sides, strict=True)]
                if one.field is other.field and sorted(rest) == sorted(other.format.sides):
                    second = permute_sides(other, Format(*map(int, rest)))
                    found.append((tensor_product(permute_sides(one, Format(*sides)), second), i, j))
    return found


def _embedded(factor: Table, part: Format, whole: Format, pair: tuple[int, int], offsets: list[int]) -> Table:
    """The factor's matrices at their offset in larger matrices of zeros."""
    high, wide = (part.sides[k] for k in pair)
    top, left = (offsets[k] for k in pair)
    canvas = np.zeros((len(factor), whole.sides[pair[0]], whole.sides[pair[1]]), dtype=factor.dtype)
    canvas[:, top : top + high, left : left + wide] = factor.reshape(len(factor), high, wide)
    return canvas.reshape(len(factor), -1)


def _blocked(first: Table, second: Table, outer: list[int], inner: list[int]) -> Table:
    """Kronecker products of the rows, [rank, outer rows * inner rows * outer columns * inner columns]."""
    blocks = np.einsum("rij,skl->rsikjl", first.reshape(-1, *outer), second.reshape(-1, *inner))
    return np.ascontiguousarray(blocks.reshape(len(first) * len(second), -1))


Vector = tuple[int, ...]  # a vector over GF(2)
MAX_SEARCHED_SIDE = 6  # up to it all lines and planes are tried, above it those of the rows


def project(claim: Factorization, at: int) -> Factorization:
    """Projects a scheme to a format with side `at` (0: rows, 1: inner, 2: columns) shorter by one.

    Over gf2 the space of that side is restricted to a hyperplane W for the factor that starts there, and projected
    along a line L outside W for the factor that ends there. Rows that become zero are removed; L and W are chosen to
    remove the most. Over other fields one index is removed.
    """
    side = claim.format.sides[at]
    if side < 2:
        raise UsageError(
            f"Cannot project a scheme for {claim.format} along a side of {side}.", "The side must be at least 2."
        )
    if claim.field is not Field.GF2:
        return min((_without_index(claim, at, index) for index in range(side)), key=lambda one: one.rank)
    factors = list(trace_form(claim))
    before = (at + 2) % 3  # this factor starts at the space of side `at`; factor `at` ends there
    line, plane = _best_cut(factors[at], factors[before].transpose(0, 2, 1))
    inside, along = _hyperplane_and_projection(line, plane)
    factors[at] = along @ factors[at] % 2
    factors[before] = factors[before] @ inside % 2
    return _with_shorter_side(claim, at, factors)


def _without_index(claim: Factorization, at: int, index: int) -> Factorization:
    """Removes one index of side `at` from both matrices, and the rows that become zero."""
    factors = list(trace_form(claim))
    before = (at + 2) % 3
    factors[at] = np.delete(factors[at], index, axis=1)
    factors[before] = np.delete(factors[before], index, axis=2)
    return _with_shorter_side(claim, at, factors)


def _with_shorter_side(claim: Factorization, at: int, factors: list[Table]) -> Factorization:
    """The scheme with these factors in trace form, without the rows that are zero."""
    kept = nonzero_rows(factors)
    x, y, z = (factor[kept] for factor in factors)
    sides = [length - (k == at) for k, length in enumerate(claim.format.sides)]
    return with_tables(claim, from_trace_form(x, y, z), format=Format(*sides))


def _best_cut(ending: Integers, starting: Integers) -> tuple[Vector, Vector]:
    """The line and the normal vector of the hyperplane that remove the most rows; matrices are [rank, side, any]."""
    side = ending.shape[1]
    to_line, off_plane = _rows_by_direction(ending), _rows_by_direction(starting)
    if side <= MAX_SEARCHED_SIDE:
        vectors = [word for word in product((0, 1), repeat=side) if any(word)]
    else:
        vectors = sorted({*to_line, *off_plane, *(tuple(row) for row in np.eye(side, dtype=int).tolist())})
    pairs = [(line, plane) for line in vectors for plane in vectors if np.dot(line, plane) % 2]
    return max(pairs, key=lambda pair: len(to_line.get(pair[0], set()) | off_plane.get(pair[1], set())))


def _rows_by_direction(matrices: Integers) -> dict[Vector, set[int]]:
    """Rows whose nonzero columns are all one vector, by that vector."""
    found: dict[Vector, set[int]] = {}
    for row, matrix in enumerate(matrices):
        columns = {tuple(column) for column in matrix.T.tolist() if any(column)}
        if len(columns) == 1:
            found.setdefault(columns.pop(), set()).add(row)
    return found


def _hyperplane_and_projection(line: Vector, plane: Vector) -> tuple[Integers, Integers]:
    """A basis of the hyperplane [side, side - 1], and the projection to its coordinates along the line."""
    side = len(line)
    pivot = plane.index(1)
    inside = np.array(
        [[int(i == k) + plane[k] * int(i == pivot) for k in range(side) if k != pivot] for i in range(side)]
    )
    square = np.concatenate([inside, np.array(line)[:, None]], axis=1)
    along = np.array(invert_matrix(square.tolist(), 2))[:-1]
    return inside, along
