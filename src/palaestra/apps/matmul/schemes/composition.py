"""Builds schemes from others: extension along a side, tensor product, and projection to a smaller format.

A search for 4x4x4 that starts from the naive scheme stays far above the best known rank; one that starts from a good
3x4x4 scheme, extended, does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field, invert_matrix
from palaestra.apps.matmul.schemes.rings import can_convert, convert
from palaestra.apps.matmul.schemes.transformations import from_trace_form, permute_sides, trace_form
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

SIDES = ("rows", "inner", "columns")


@dataclass(frozen=True, eq=False)
class Start:
    """A start scheme, and the fingerprints of the schemes it was built from."""

    scheme: VerifiedFactorization
    parents: tuple[str, ...]


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
    corners = ((0, 1), (1, 2), (0, 2))  # the sides of A, of B and of the product
    u, v, w = (
        np.concatenate(
            [_embedded(a, first.format, whole, pair, [0, 0, 0]), _embedded(b, second.format, whole, pair, offsets)]
        )
        for a, b, pair in zip(first.factors, second.factors, corners, strict=True)
    )
    return Factorization(whole, first.field, u, v, w)


def tensor_product(first: Factorization, second: Factorization) -> Factorization:
    """The tensor product: the first scheme on blocks, with the second for each product of blocks."""
    if first.field is not second.field or first.denominators != second.denominators:
        raise UsageError(f"Cannot multiply schemes over {first.field} and {second.field}.", "The fields must be equal.")
    whole = Format(*(a * b for a, b in zip(first.format.sides, second.format.sides, strict=True)))
    corners = ((0, 1), (1, 2), (0, 2))
    u, v, w = (
        _blocked(a, b, [first.format.sides[k] for k in pair], [second.format.sides[k] for k in pair])
        for a, b, pair in zip(first.factors, second.factors, corners, strict=True)
    )
    return replace(first, format=whole, u=u, v=v, w=w)


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


def build_best_start(format_: Format, field: Field, known: Iterable[tuple[str, VerifiedFactorization]]) -> Start:
    """The scheme of lowest rank over `field` that can be built from known ones (by fingerprint) and naive ones.

    Known schemes that are not valid over the field are ignored.
    """
    best: dict[Format, tuple[str, Factorization]] = {}
    for digest, proved in known:
        if not can_convert(proved.claim, field):
            continue
        claim = convert(proved.claim, field)
        key = claim.format.ascending
        if key not in best or claim.rank < best[key][1].rank:
            best[key] = (digest, claim)
    _project_down(format_.ascending, best)
    made: dict[Format, tuple[Factorization, frozenset[str]]] = {}
    scheme, parents = _build_best(format_, field, best, made)
    return Start(verify(scheme), tuple(sorted(parents)))


def _project_down(target: Format, best: dict[Format, tuple[str, Factorization]]) -> None:
    """Adds projections of larger schemes for all formats down to the target, the largest first."""
    pending = sorted((one for one in best if one != target), key=lambda one: one.naive_rank)
    while pending:
        digest, claim = best[pending.pop()]
        for at, side in enumerate(claim.format.sides):
            smaller = _with_side(claim.format, at, max(side - 1, 1)).ascending
            if side < 2 or any(length < other for length, other in zip(smaller.sides, target.sides, strict=True)):
                continue
            made = project(claim, at)
            known = best[smaller][1].rank if smaller in best else smaller.naive_rank
            if made.rank < known:
                best[smaller] = (digest, made)
                pending.append(smaller)
                pending.sort(key=lambda one: one.naive_rank)


def _build_best(
    format_: Format,
    field: Field,
    best: dict[Format, tuple[str, Factorization]],
    made: dict[Format, tuple[Factorization, frozenset[str]]],
) -> tuple[Factorization, frozenset[str]]:
    """Tries every cut of every side, with both parts built recursively."""
    if format_ in made:
        return made[format_]
    found: tuple[Factorization, frozenset[str]] = (naive_factorization(format_, field), frozenset())
    if format_.ascending in best:
        digest, claim = best[format_.ascending]
        found = (permute_sides(claim, format_), frozenset({digest}))
    for at, side in enumerate(SIDES):
        for cut in range(1, format_.sides[at] // 2 + 1):
            first, one = _build_best(_with_side(format_, at, format_.sides[at] - cut), field, best, made)
            second, other = _build_best(_with_side(format_, at, cut), field, best, made)
            if first.rank + second.rank < found[0].rank:
                found = (join_schemes(first, second, side), one | other)
    made[format_] = found
    return found


def _with_side(format_: Format, at: int, length: int) -> Format:
    sides = list(format_.sides)
    sides[at] = length
    return Format(sides[0], sides[1], sides[2])


def _embedded(factor: Integers, part: Format, whole: Format, pair: tuple[int, int], offsets: list[int]) -> Integers:
    """The factor's matrices at their offset in larger matrices of zeros."""
    high, wide = (part.sides[k] for k in pair)
    top, left = (offsets[k] for k in pair)
    canvas = np.zeros((len(factor), whole.sides[pair[0]], whole.sides[pair[1]]), dtype=np.int64)
    canvas[:, top : top + high, left : left + wide] = factor.reshape(len(factor), high, wide)
    return canvas.reshape(len(factor), -1)


def _blocked(first: Integers, second: Integers, outer: list[int], inner: list[int]) -> Integers:
    """Kronecker products of the rows, [rank, outer rows * inner rows * outer columns * inner columns]."""
    blocks = np.einsum("rij,skl->rsikjl", first.reshape(-1, *outer), second.reshape(-1, *inner))
    return np.ascontiguousarray(blocks.reshape(len(first) * len(second), -1))


Vector = tuple[int, ...]  # a vector over GF(2)


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
    kept = np.logical_and.reduce([factor.any(axis=(1, 2)) for factor in factors])
    u, v, w = from_trace_form(*(factor[kept] for factor in factors))
    sides = [length - (k == at) for k, length in enumerate(claim.format.sides)]
    return Factorization(Format(sides[0], sides[1], sides[2]), Field.GF2, u, v, w)


def _without_index(claim: Factorization, at: int, index: int) -> Factorization:
    """Removes one index of side `at` from both matrices, and the rows that become zero."""
    factors = list(trace_form(claim))
    before = (at + 2) % 3
    factors[at] = np.delete(factors[at], index, axis=1)
    factors[before] = np.delete(factors[before], index, axis=2)
    kept = np.logical_and.reduce([factor.any(axis=(1, 2)) for factor in factors])
    u, v, w = from_trace_form(*(factor[kept] for factor in factors))
    sides = [length - (k == at) for k, length in enumerate(claim.format.sides)]
    return replace(claim, format=Format(*sides), u=u, v=v, w=w)


def _best_cut(ending: Integers, starting: Integers) -> tuple[Vector, Vector]:
    """The line and the normal vector of the hyperplane that remove the most rows; matrices are [rank, side, any]."""
    side = ending.shape[1]
    to_line, off_plane = _rows_by_direction(ending), _rows_by_direction(starting)
    vectors = [word for word in product((0, 1), repeat=side) if any(word)]
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
