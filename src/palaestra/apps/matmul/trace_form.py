"""A scheme as the trace of a product of three: there the cyclic turn and the transposition are plain to see."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.factorization import Factorization, Integers
    from palaestra.apps.matmul.format import Format

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


def turned_to(claim: Factorization, format_: Format) -> Factorization:
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
