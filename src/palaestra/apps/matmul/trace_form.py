"""A scheme as the trace of a product of three: there the cyclic turn and the transposition are plain to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.apps.matmul.factorization import Factorization, Integers


def trace_form(claim: Factorization) -> tuple[Integers, Integers, Integers]:
    """x [rank, rows, inner], y [rank, inner, columns] and z [rank, columns, rows]; z is w, transposed."""
    rows, inner, columns = claim.format.sides
    x = claim.u.reshape(claim.rank, rows, inner)
    y = claim.v.reshape(claim.rank, inner, columns)
    z = claim.w.reshape(claim.rank, rows, columns).transpose(0, 2, 1)
    return x, y, z
