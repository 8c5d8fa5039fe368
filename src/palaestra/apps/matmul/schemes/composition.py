"""Larger schemes put together from smaller ones: a side is cut in two, and each part has a scheme of its own.

And smaller ones out of larger ones, see `projection`.

From the schoolbook's scheme a search for 4x4x4 stays far above the best known rank;
from a good 3x4x4 and a strip it does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers, modulo_2, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field, invert_matrix
from palaestra.apps.matmul.schemes.transformations import from_trace_form, permute_sides, trace_form
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

SIDES = ("rows", "inner", "columns")
# Which schemes hold over a field: a half has no meaning modulo 2, and a 2 is no coefficient of zt.
HOLDING = {
    Field.GF2: frozenset({Field.GF2, Field.ZT, Field.Z}),
    Field.ZT: frozenset({Field.ZT}),
    Field.Z: frozenset({Field.ZT, Field.Z}),
}


@dataclass(frozen=True, eq=False)
class Start:
    """A scheme to begin with, and the fingerprints of those it was put together from."""

    scheme: VerifiedFactorization
    parents: tuple[str, ...]


def join(first: Factorization, second: Factorization, side: str) -> Factorization:
    """A scheme for both parts of a product that is cut along `side`; the other two sides are the same."""
    at = SIDES.index(side)
    sides = list(first.format.sides)
    offsets = [0, 0, 0]
    offsets[at] = sides[at]
    sides[at] += second.format.sides[at]
    others = [k for k in range(3) if k != at]
    if first.field is not second.field or any(first.format.sides[k] != second.format.sides[k] for k in others):
        raise UsageError(
            f"{first.format} over {first.field} and {second.format} over {second.field} do not join along {side}.",
            "Field and the other two sides must be the same.",
        )
    whole = Format(sides[0], sides[1], sides[2])
    corners = ((0, 1), (1, 2), (0, 2))  # the sides of A, of B and of the product
    u, v, w = (
        np.concatenate(
            [_placed(a, first.format, whole, pair, [0, 0, 0]), _placed(b, second.format, whole, pair, offsets)]
        )
        for a, b, pair in zip(first.factors, second.factors, corners, strict=True)
    )
    return Factorization(whole, first.field, u, v, w)


def tensor_product(first: Factorization, second: Factorization) -> Factorization:
    """The first with its entries taken as blocks, and each product of blocks made by the second."""
    if first.field is not second.field or first.denominators != second.denominators:
        raise UsageError(f"A scheme over {first.field} and one over {second.field} have no product.", "Fields differ.")
    whole = Format(*(a * b for a, b in zip(first.format.sides, second.format.sides, strict=True)))
    corners = ((0, 1), (1, 2), (0, 2))
    u, v, w = (
        _blocked(a, b, [first.format.sides[k] for k in pair], [second.format.sides[k] for k in pair])
        for a, b, pair in zip(first.factors, second.factors, corners, strict=True)
    )
    return replace(first, format=whole, u=u, v=v, w=w)


def find_tensor_products(format_: Format, known: Iterable[Factorization]) -> list[tuple[Factorization, int, int]]:
    """Every product of two known schemes that is one for this format, with the places of the two."""
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
    """The scheme of lowest rank over `field` that the known ones (by fingerprint) and the schoolbook put together.

    Known schemes that do not hold over this field are left out.
    """
    best: dict[Format, tuple[str, Factorization]] = {}
    for mark, proved in known:
        if proved.field not in HOLDING[field]:
            continue
        claim = modulo_2(proved.claim) if field is Field.GF2 else replace(proved.claim, field=field)
        key = claim.format.ascending
        if key not in best or claim.rank < best[key][1].rank:
            best[key] = (mark, claim)
    _project_down(format_.ascending, best)
    made: dict[Format, tuple[Factorization, frozenset[str]]] = {}
    scheme, parents = _grown(format_, field, best, made)
    return Start(verify(scheme), tuple(sorted(parents)))


def _project_down(wanted: Format, best: dict[Format, tuple[str, Factorization]]) -> None:
    """Adds what larger schemes hold for formats between theirs and the wanted one, the largest first."""
    waiting = sorted((one for one in best if one != wanted), key=lambda one: one.naive_rank)
    while waiting:
        mark, claim = best[waiting.pop()]
        for at, side in enumerate(claim.format.sides):
            smaller = _with_side(claim.format, at, max(side - 1, 1)).ascending
            if side < 2 or any(length < other for length, other in zip(smaller.sides, wanted.sides, strict=True)):
                continue
            made = project(claim, at)
            known = best[smaller][1].rank if smaller in best else smaller.naive_rank
            if made.rank < known:
                best[smaller] = (mark, made)
                waiting.append(smaller)
                waiting.sort(key=lambda one: one.naive_rank)


def _grown(
    format_: Format,
    field: Field,
    best: dict[Format, tuple[str, Factorization]],
    made: dict[Format, tuple[Factorization, frozenset[str]]],
) -> tuple[Factorization, frozenset[str]]:
    """Every cut of every side is tried, and every part grown in the same way."""
    if format_ in made:
        return made[format_]
    found: tuple[Factorization, frozenset[str]] = (naive_factorization(format_, field), frozenset())
    if format_.ascending in best:
        mark, claim = best[format_.ascending]
        found = (permute_sides(claim, format_), frozenset({mark}))
    for at, side in enumerate(SIDES):
        for cut in range(1, format_.sides[at] // 2 + 1):
            first, one = _grown(_with_side(format_, at, format_.sides[at] - cut), field, best, made)
            second, other = _grown(_with_side(format_, at, cut), field, best, made)
            if first.rank + second.rank < found[0].rank:
                found = (join(first, second, side), one | other)
    made[format_] = found
    return found


def _with_side(format_: Format, at: int, length: int) -> Format:
    sides = list(format_.sides)
    sides[at] = length
    return Format(sides[0], sides[1], sides[2])


def _placed(factor: Integers, part: Format, whole: Format, pair: tuple[int, int], offsets: list[int]) -> Integers:
    """The factor's matrices at their place in larger ones of zeros."""
    high, wide = (part.sides[k] for k in pair)
    top, left = (offsets[k] for k in pair)
    canvas = np.zeros((len(factor), whole.sides[pair[0]], whole.sides[pair[1]]), dtype=np.int64)
    canvas[:, top : top + high, left : left + wide] = factor.reshape(len(factor), high, wide)
    return canvas.reshape(len(factor), -1)


def _blocked(first: Integers, second: Integers, outer: list[int], inner: list[int]) -> Integers:
    """Row by row the product of Kronecker, [rank, outer rows * inner rows * outer columns * inner columns]."""
    blocks = np.einsum("rij,skl->rsikjl", first.reshape(-1, *outer), second.reshape(-1, *inner))
    return np.ascontiguousarray(blocks.reshape(len(first) * len(second), -1))


Word = tuple[int, ...]  # a vector of 0 and 1


def project(claim: Factorization, at: int) -> Factorization:
    """With side `at` (0: rows, 1: inner, 2: columns) one shorter; over other fields than gf2 one index is left out."""
    side = claim.format.sides[at]
    if side < 2:
        raise UsageError(
            f"A scheme for {claim.format} is not cut down along a side of {side}.", "A side of two or more can be."
        )
    if claim.field is not Field.GF2:
        return min((_without_index(claim, at, index) for index in range(side)), key=lambda one: one.rank)
    factors = list(trace_form(claim))
    before = (at + 2) % 3  # the factor that comes from this space; factor `at` leads to it
    line, plane = _best_cut(factors[at], factors[before].transpose(0, 2, 1))
    inside, along = _cut(line, plane)
    factors[at] = along @ factors[at] % 2
    factors[before] = factors[before] @ inside % 2
    kept = np.logical_and.reduce([factor.any(axis=(1, 2)) for factor in factors])
    u, v, w = from_trace_form(*(factor[kept] for factor in factors))
    sides = [length - (k == at) for k, length in enumerate(claim.format.sides)]
    return Factorization(Format(sides[0], sides[1], sides[2]), Field.GF2, u, v, w)


def _without_index(claim: Factorization, at: int, index: int) -> Factorization:
    """One row or column of the two matrices that share side `at` is taken as 0; rows that multiply nothing leave."""
    factors = list(trace_form(claim))
    before = (at + 2) % 3
    factors[at] = np.delete(factors[at], index, axis=1)
    factors[before] = np.delete(factors[before], index, axis=2)
    kept = np.logical_and.reduce([factor.any(axis=(1, 2)) for factor in factors])
    u, v, w = from_trace_form(*(factor[kept] for factor in factors))
    sides = [length - (k == at) for k, length in enumerate(claim.format.sides)]
    return replace(claim, format=Format(*sides), u=u, v=v, w=w)


def _best_cut(leading: Integers, coming: Integers) -> tuple[Word, Word]:
    """The line, and the plane as the vector that is orthogonal to it; both [rank, side, any] say where rows point."""
    side = leading.shape[1]
    to_line, off_plane = _pointing(leading), _pointing(coming)
    vectors = [word for word in product((0, 1), repeat=side) if any(word)]
    pairs = [(line, plane) for line in vectors for plane in vectors if np.dot(line, plane) % 2]
    return max(pairs, key=lambda pair: len(to_line.get(pair[0], set()) | off_plane.get(pair[1], set())))


def _pointing(matrices: Integers) -> dict[Word, set[int]]:
    """Rows whose columns are all 0 or one vector, by that vector."""
    found: dict[Word, set[int]] = {}
    for row, matrix in enumerate(matrices):
        columns = {tuple(column) for column in matrix.T.tolist() if any(column)}
        if len(columns) == 1:
            found.setdefault(columns.pop(), set()).add(row)
    return found


def _cut(line: Word, plane: Word) -> tuple[Integers, Integers]:
    """The plane's vectors as columns [side, side - 1], and what reads their coordinates along the line."""
    side = len(line)
    pivot = plane.index(1)
    inside = np.array(
        [[int(i == k) + plane[k] * int(i == pivot) for k in range(side) if k != pivot] for i in range(side)]
    )
    square = np.concatenate([inside, np.array(line)[:, None]], axis=1)
    along = np.array(invert_matrix(square.tolist(), 2))[:-1]
    return inside, along
