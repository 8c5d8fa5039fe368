"""A scheme as the trace of a product of three: there the cyclic turn and the transposition are plain to see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers

STRAIGHT = frozenset({(0, 1, 2), (1, 2, 0), (2, 0, 1)})  # the other orders are those of the transposed product


def trace_form(claim: Factorization) -> tuple[Integers, Integers, Integers]:
    """x [rank, rows, inner], y [rank, inner, columns] and z [rank, columns, rows]; z is w, transposed."""
    rows, inner, columns = claim.format.sides
    x = claim.u.reshape(claim.rank, rows, inner)
    y = claim.v.reshape(claim.rank, inner, columns)
    z = claim.w.reshape(claim.rank, rows, columns).transpose(0, 2, 1)
    return x, y, z


def from_trace_form(x: Integers, y: Integers, z: Integers) -> tuple[Integers, Integers, Integers]:
    """u, v and w again."""
    return _flat(x), _flat(y), _flat(z.transpose(0, 2, 1))


def view(factors: tuple[Integers, ...], order: tuple[int, ...]) -> tuple[Integers, ...]:
    """The same trace with its factors in another order."""
    if order in STRAIGHT:
        return tuple(factors[k] for k in order)
    return tuple(factors[k].transpose(0, 2, 1) for k in order)


def permute_sides(claim: Factorization, format_: Format) -> Factorization:
    """The same scheme for a format with the same sides in another order."""
    factors = trace_form(claim)
    for order in permutations(range(3)):
        x, y, z = view(factors, order)
        if (x.shape[1], y.shape[1], z.shape[1]) == format_.sides:
            denominators = tuple(claim.denominators[k] for k in order)
            u, v, w = (_flat(factor) for factor in (x, y, z.transpose(0, 2, 1)))
            return replace(
                claim, format=format_, u=u, v=v, w=w, denominators=(denominators[0], denominators[1], denominators[2])
            )
    raise UsageError(f"A scheme for {claim.format} is none for {format_}.", "The sides must be the same three.")


def _flat(matrices: Integers) -> Integers:
    return np.ascontiguousarray(matrices).reshape(len(matrices), -1).copy()


Bases = tuple["Base", "Base", "Base"]


@dataclass(frozen=True, eq=False)
class Base:
    """`matrix` leads to the new coordinates, `inverse` back; both are whole."""

    matrix: Integers  # [size, size]
    inverse: Integers  # [size, size]


def standard_base(size: int) -> Base:
    return Base(np.eye(size, dtype=np.int64), np.eye(size, dtype=np.int64))


def random_base(size: int, field: Field, rng: np.random.Generator) -> Base:
    """Rows are added to others, and the inverse is kept in step, so that no fraction ever appears.

    Modulo 2 there are enough additions to reach every base; over the whole numbers few, since entries grow.
    """
    matrix = np.eye(size, dtype=np.int64)[rng.permutation(size)]
    inverse = matrix.T.copy()
    additions = 4 * size * size if field is Field.GF2 else size
    for _ in range(additions if size > 1 else 0):
        target, source = rng.choice(size, 2, replace=False)
        sign = int(rng.choice((-1, 1)))
        matrix[target] += sign * matrix[source]
        inverse[:, source] -= sign * inverse[:, target]
        if field is Field.GF2:
            matrix %= 2
            inverse %= 2
    return Base(matrix, inverse)


def change_bases(tensor: Integers, bases: Bases, field: Field) -> Integers:
    """The tensor [A, B, C] in new coordinates."""
    first, second, third = (base.matrix for base in bases)
    changed: Integers = np.einsum("ia,jb,kc,abc->ijk", first, second, third, tensor, optimize=True)
    return changed % 2 if field is Field.GF2 else changed


def change_back(factor: Integers, base: Base, field: Field) -> Integers:
    """Rows [rank, size] that were found in new coordinates, in the old ones."""
    back: Integers = factor @ base.inverse.T
    return back % 2 if field is Field.GF2 else back
