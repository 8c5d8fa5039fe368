"""Between the walk on the flip graph and the agent, both ways.

Schemes that the walk found are shown to the agent from all sides (then what it finds is *reproduced*); what the agent
leaves unsolved is completed slice by slice to a scheme that multiplies, from which a walk can start.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.agent_demonstrations import Lessons
from palaestra.apps.matmul.bases import random_base
from palaestra.apps.matmul.contractions import Bits, outer_bits
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.masks import Masks, from_masks, to_masks
from palaestra.apps.matmul.trace_form import trace_form, view
from palaestra.apps.matmul.verification import verify

if TYPE_CHECKING:
    from palaestra.apps.matmul.agent_demonstrations import Moves
    from palaestra.apps.matmul.factorization import Factorization, Integers
    from palaestra.apps.matmul.format import Format


SIDES = 8  # of each batch of lessons; to look from another one takes milliseconds


def from_another_side(claim: Factorization, dice: np.random.Generator) -> Factorization:
    """The same scheme under a random symmetry of the product: other bases, and a turn or transposition if it fits."""
    orders = [order for order in permutations(range(3)) if _sides(view(trace_form(claim), order)) == claim.format.sides]
    x, y, z = view(trace_form(claim), orders[dice.integers(len(orders))])
    rows, inner, columns = (random_base(side, Field.GF2, dice) for side in claim.format.sides)
    u = rows.matrix @ x @ inner.inverse
    v = inner.matrix @ y @ columns.inverse
    w = (columns.matrix @ z @ rows.inverse).transpose(0, 2, 1)
    u, v, w = (np.ascontiguousarray(factor.reshape(claim.rank, -1) % 2) for factor in (u, v, w))
    return replace(claim, u=u, v=v, w=w)


def scheme_lessons(schemes: list[Masks], format_: Format, count: int, dice: np.random.Generator) -> Lessons:
    """Parts of the schemes, each seen from another side: a scheme without some of its rows solves what they leave."""
    chosen = [schemes[dice.integers(len(schemes))] for _ in range(min(count, SIDES))]
    seen = [to_masks(from_another_side(from_masks(scheme, format_), dice)) for scheme in chosen]
    tensors, moves, remaining = [], [], []
    for _ in range(count):
        rows = np.array(seen[dice.integers(len(seen))], np.int64)
        kept = dice.permutation(rows)[: dice.integers(1, len(rows) + 1)]
        tensors.append(np.bitwise_xor.reduce(outer_bits(kept, format_.sizes), axis=0))
        moves.append(kept[0])
        remaining.append(len(kept))
    return Lessons(np.array(tensors), np.array(moves), np.array(remaining, np.int64), np.ones(count, bool))


def completion(left: Bits) -> Moves:
    """Moves [moves, 3] that take away all that is left [A, B, C], slice by slice along the cheapest axis."""
    ways = [_slices(np.moveaxis(left, axis, 0), axis) for axis in range(3)]
    return min(ways, key=len)


def proposal(claim: Factorization) -> Masks:
    """A scheme for the walk to start from: proved, its double rows gone."""
    masks = to_masks(verify(claim).claim)
    kept: dict[tuple[int, ...], list[int]] = {}
    for row in masks:
        if kept.pop(tuple(row), None) is None:
            kept[tuple(row)] = row
    return list(kept.values())


def _slices(parts: Bits, axis: int) -> Moves:
    found = []
    for place, matrix in enumerate(parts):
        for first, second in _rank_one_parts(matrix):
            pair = [first, second]
            pair.insert(axis, 1 << place)
            found.append(pair)
    return np.array(found, np.int64).reshape(-1, 3)


def _rank_one_parts(matrix: Bits) -> list[tuple[int, int]]:
    """Masks of columns and rows whose products sum to the matrix, as many as its rank."""
    rows = [int(row) for row in (matrix.astype(np.int64) << np.arange(matrix.shape[1])).sum(axis=1)]
    parts = []
    while any(rows):
        pivot = next(row for row in rows if row)
        lowest = pivot & -pivot
        column = sum(1 << place for place, row in enumerate(rows) if row & lowest)
        rows = [row ^ pivot if row & lowest else row for row in rows]
        parts.append((column, pivot))
    return parts


def _sides(factors: tuple[Integers, ...]) -> tuple[int, ...]:
    return tuple(factor.shape[1] for factor in factors)
