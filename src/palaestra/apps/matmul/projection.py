"""A scheme for a larger format holds one for each smaller: one dimension of a side is left out, modulo 2.

A space is cut down to a hyperplane W where a factor comes from it, and seen along a line L, not in W, where a factor
leads to it. Rows that lead to L only, or that come from outside of W only, multiply nothing any more; of all pairs of L
and W the one that takes most rows away is chosen.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from palaestra.apps.matmul.algebra import inverse_of
from palaestra.apps.matmul.factorization import Factorization, Integers
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.trace_form import from_trace_form, trace_form
from palaestra.core.errors import UsageError

Word = tuple[int, ...]  # a vector of 0 and 1


def projected(claim: Factorization, at: int) -> Factorization:
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
    along = np.array(inverse_of(square.tolist(), 2))[:-1]
    return inside, along
