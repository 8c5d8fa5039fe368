"""Hensel lifting of a scheme over gf2 to the integers: modulo 4, 8, 16, … until small coefficients hold exactly.

Each step solves a linear system modulo 2 with the same matrix. Many schemes lift; some do not (4x4x4 with 47 rows).
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import NotAnAlgorithm, VerifiedFactorization, residual, verify
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization, Integers

STEPS = 8  # up to modulo 512; larger coefficients are not useful
Bits = NDArray[np.uint8]
Words = NDArray[np.uint64]


class LiftTimeout(Exception):
    """A lift exceeded its deadline; whether the scheme lifts is unknown."""


def lift(proved: VerifiedFactorization, deadline: float = inf) -> VerifiedFactorization | None:
    """The scheme over zt, or over z if it needs larger coefficients; None if it does not lift.

    Raises `LiftTimeout` after `deadline` (time.monotonic): for 5x5x5 the linear system takes a minute.
    """
    if proved.field is not Field.GF2:
        raise UsageError(f"Cannot lift a scheme over {proved.field}.", "Only schemes over gf2 can be lifted.")
    factors = list(proved.claim.factors)
    system: _System | None = None
    for step in range(1, STEPS + 1):
        modulus = 2**step
        found = _verify_centered(proved.claim, factors, modulus)
        if found is not None:
            return found
        error = residual(_to_claim(proved.claim, factors)) // modulus % 2
        system = system or _System(proved.claim, deadline)  # not needed if the bits themselves are valid
        correction = system.solve(error.ravel())
        if correction is None:
            return None
        factors = [factor + modulus * part for factor, part in zip(factors, correction, strict=True)]
    return _verify_centered(proved.claim, factors, 2 ** (STEPS + 1))


def _to_claim(origin: Factorization, factors: list[Integers]) -> Factorization:
    u, v, w = (factor.copy() for factor in factors)
    return replace(origin, field=Field.Z, u=u, v=v, w=w)


def _verify_centered(origin: Factorization, factors: list[Integers], modulus: int) -> VerifiedFactorization | None:
    """The scheme with coefficients centred around 0 modulo `modulus`; None if it is not valid over the integers."""
    reach = modulus // 2 - 1
    claim = _to_claim(origin, [(factor + reach) % modulus - reach for factor in factors])
    field = Field.ZT if claim.largest_coefficient <= 1 else Field.Z
    try:
        return verify(replace(claim, field=field))
    except NotAnAlgorithm:
        return None


class _System:
    """The Jacobian of a scheme modulo 2, reduced once for all steps."""

    def __init__(self, claim: Factorization, deadline: float) -> None:
        self._shapes = [factor.shape for factor in claim.factors]
        values = np.concatenate([factor.ravel() for factor in claim.factors])
        self._order = np.argsort(1 - values, kind="stable")  # entries of 1 first: their corrections are signs
        matrix = _jacobian(claim)[:, self._order]
        self._equations, self._unknowns = matrix.shape
        self._operations, self._pivots = _reduce(matrix, deadline)

    def solve(self, error: Integers) -> list[Integers] | None:
        """The correction of each factor, in units of the modulus; None if there is none."""
        right = self._operations @ error % 2
        rank = len(self._pivots)
        if right[rank:].any():
            return None
        solution = np.zeros(self._unknowns, dtype=np.int64)
        solution[self._order[self._pivots]] = right[:rank]
        boundaries = np.cumsum([rows * columns for rows, columns in self._shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(solution, boundaries), self._shapes, strict=True)]


def _jacobian(claim: Factorization) -> Bits:
    """The Jacobian of the tensor with respect to the coefficients, modulo 2; [entries, coefficients]."""
    u, v, w = (factor.astype(np.uint8) for factor in claim.factors)
    a, b, c = claim.format.sizes
    rank = claim.rank
    by_u = np.einsum("ai,rj,rk->ijkra", np.eye(a, dtype=np.uint8), v, w).reshape(a * b * c, rank * a)
    by_v = np.einsum("ri,bj,rk->ijkrb", u, np.eye(b, dtype=np.uint8), w).reshape(a * b * c, rank * b)
    by_w = np.einsum("ri,rj,ck->ijkrc", u, v, np.eye(c, dtype=np.uint8)).reshape(a * b * c, rank * c)
    return np.concatenate([by_u, by_v, by_w], axis=1)


def _reduce(matrix: Bits, deadline: float) -> tuple[Integers, NDArray[np.intp]]:
    """Gauss-Jordan elimination on packed bits: the row operations [equations, equations] and the pivot columns."""
    equations, unknowns = matrix.shape
    work = _packed(np.concatenate([matrix, np.eye(equations, dtype=np.uint8)], axis=1))
    pivots: list[int] = []
    for column in range(unknowns):
        if time.monotonic() > deadline:
            raise LiftTimeout
        word, bit = column // 64, np.uint64(1) << np.uint64(column % 64)
        holds = (work[:, word] & bit) != 0
        below = np.flatnonzero(holds[len(pivots) :])
        if not len(below):
            continue
        place, found = len(pivots), len(pivots) + int(below[0])
        work[[place, found]] = work[[found, place]]
        holds[found], holds[place] = holds[place], False
        work[holds] ^= work[place]
        pivots.append(column)
        if len(pivots) == equations:
            break
    bits = np.unpackbits(work.view(np.uint8), axis=1, bitorder="little")
    return bits[:, unknowns : unknowns + equations].astype(np.int64), np.array(pivots, dtype=np.intp)


def _packed(bits: Bits) -> Words:
    wide = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), dtype=np.uint8)
    wide[:, : bits.shape[1]] = bits
    return np.packbits(wide, axis=1, bitorder="little").view(np.uint64)
