"""Symmetries of the matrix product: changes of basis, cyclic rotation and transposition.

In trace form a scheme is a sum of trace(x X) trace(y Y) trace(z Z), where the cyclic rotation and the transposition
are permutations of the factors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.schemes.factorization import with_tables
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers, Tables

    Table = NDArray[Any]

STRAIGHT = frozenset({(0, 1, 2), (1, 2, 0), (2, 0, 1)})  # the other orders belong to the transposed product


def trace_form(claim: Factorization) -> Tables:
    """x [rank, rows, inner], y [rank, inner, columns] and z [rank, columns, rows], where z is w transposed.

    Like `Factorization.tables`: complex if there are imaginary parts.
    """
    rows, inner, columns = claim.format.sides
    u, v, w = claim.tables
    x, y = u.reshape(claim.rank, rows, inner), v.reshape(claim.rank, inner, columns)
    return x, y, w.reshape(claim.rank, rows, columns).transpose(0, 2, 1)


def from_trace_form(x: Table, y: Table, z: Table) -> Tables:
    """u, v and w of factors in trace form."""
    return _flat(x), _flat(y), _flat(z.transpose(0, 2, 1))


def view(factors: tuple[Table, ...], order: tuple[int, ...]) -> tuple[Table, ...]:
    """The factors in another order, transposed where the order needs it."""
    if order in STRAIGHT:
        return tuple(factors[k] for k in order)
    return tuple(factors[k].transpose(0, 2, 1) for k in order)


def permute_sides(claim: Factorization, format_: Format) -> Factorization:
    """The scheme for a format with the same sides in another order."""
    factors = trace_form(claim)
    for order in permutations(range(3)):
        x, y, z = view(factors, order)
        if (x.shape[1], y.shape[1], z.shape[1]) == format_.sides:
            first, second, third = (claim.denominators[k] for k in order)
            changes = {"format": format_, "denominators": (first, second, third)}
            return with_tables(claim, from_trace_form(x, y, z), **changes)
    raise UsageError(f"A scheme for {claim.format} has no equivalent for {format_}.", "Both need the same three sides.")


def _flat(matrices: Table) -> Table:
    return np.ascontiguousarray(matrices).reshape(len(matrices), -1).copy()


Bases = tuple["Basis", "Basis", "Basis"]


@dataclass(frozen=True, eq=False)
class Basis:
    """A unimodular change of basis: `matrix` maps to the new coordinates, `inverse` back."""

    matrix: Integers  # [size, size]
    inverse: Integers  # [size, size]


def standard_basis(size: int) -> Basis:
    return Basis(np.eye(size, dtype=np.int64), np.eye(size, dtype=np.int64))


def random_basis(size: int, field: Field, rng: np.random.Generator) -> Basis:
    """A product of random row additions, so that matrix and inverse are integer.

    Over GF(2) there are enough additions to reach every basis; over the integers few, since entries grow.
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
    return Basis(matrix, inverse)


def change_bases(tensor: Integers, bases: Bases, field: Field) -> Integers:
    """The tensor [A, B, C] in the new coordinates."""
    first, second, third = (basis.matrix for basis in bases)
    changed: Integers = np.einsum("ia,jb,kc,abc->ijk", first, second, third, tensor, optimize=True)
    return changed % 2 if field is Field.GF2 else changed


def change_back(factor: Integers, basis: Basis, field: Field) -> Integers:
    """Rows [rank, size] from the new coordinates to the old ones."""
    back: Integers = factor @ basis.inverse.T
    return back % 2 if field is Field.GF2 else back


def random_equivalent(claim: Factorization, rng: np.random.Generator) -> Factorization:
    """An equivalent scheme over gf2: random bases, and a rotation or transposition that keeps the format."""
    orders = [order for order in permutations(range(3)) if _sides(view(trace_form(claim), order)) == claim.format.sides]
    x, y, z = view(trace_form(claim), orders[rng.integers(len(orders))])
    rows, inner, columns = (random_basis(side, Field.GF2, rng) for side in claim.format.sides)
    u = rows.matrix @ x @ inner.inverse
    v = inner.matrix @ y @ columns.inverse
    w = (columns.matrix @ z @ rows.inverse).transpose(0, 2, 1)
    u, v, w = (np.ascontiguousarray(factor.reshape(claim.rank, -1) % 2) for factor in (u, v, w))
    return replace(claim, u=u, v=v, w=w)


def _sides(factors: tuple[Table, ...]) -> tuple[int, ...]:
    return tuple(factor.shape[1] for factor in factors)
