"""Hensel lifting of a scheme over gf2 or z3 to numbers: modulo p^2, p^3, … until small coefficients hold exactly.

Each step solves a linear system modulo p with the same matrix. Many schemes lift; some do not (4x4x4 with 47 rows over
gf2). Where no integers result, fractions are reconstructed from the residues: with odd denominators from gf2, with
others than multiples of 3 from z3.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isqrt
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.coefficients import claim_from_rows
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.rings import convert, strictest_field, with_primitive_rows
from palaestra.apps.matmul.schemes.verification import NotAnAlgorithm, VerifiedFactorization, residual, verify
from palaestra.apps.matmul.search.linear_system import LinearSystem, Residues
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization, Integers

STEPS = {2: 8, 3: 5}  # for integers: up to modulo 512 and 729; larger coefficients are not useful
FRACTION_STEPS = {2: 19, 3: 12}  # residues stay below 2^21


class LiftTimeout(Exception):
    """A lift exceeded its deadline; whether the scheme lifts is unknown."""


def lift(
    proved: VerifiedFactorization, deadline: float = inf, *, with_fractions: bool = False
) -> VerifiedFactorization | None:
    """The scheme over zt, over z if it needs larger coefficients, or over q; None if it does not lift.

    Raises `LiftTimeout` after `deadline` (time.monotonic): for 5x5x5 the linear system takes a minute.
    """
    prime = proved.field.characteristic
    if not prime:
        raise UsageError(f"Cannot lift a scheme over {proved.field}.", "Only schemes over gf2 and z3 can be lifted.")
    factors = [factor % prime for factor in proved.claim.factors]
    system: _Corrections | None = None
    steps = FRACTION_STEPS[prime] if with_fractions else STEPS[prime]
    for step in range(1, steps + 1):
        modulus = prime**step
        found = _verify_centered(proved.claim, factors, modulus) if step <= STEPS[prime] else None
        if found is not None:
            return found
        error = residual(_to_claim(proved.claim, factors), modulus * prime) // modulus
        system = system or _Corrections(proved.claim, deadline)  # not needed if the residues themselves are valid
        correction = system.solve(error.ravel())
        if correction is None:
            return None
        factors = [factor + modulus * part for factor, part in zip(factors, correction, strict=True)]
    found = _verify_centered(proved.claim, factors, prime ** (steps + 1))
    return found or (verify_fractions(proved.claim, factors, prime ** (steps + 1)) if with_fractions else None)


def reconstruct_fraction(residue: int, modulus: int) -> tuple[int, int] | None:
    """Numerator and denominator below sqrt(modulus / 2) with numerator = residue * denominator; None if none exist."""
    reach = isqrt(modulus // 2)
    above, remainder, before, factor = modulus, residue % modulus, 0, 1
    while remainder > reach:
        quotient = above // remainder
        above, remainder, before, factor = remainder, above - quotient * remainder, factor, before - quotient * factor
    if not factor or abs(factor) > reach:
        return None
    return (remainder, factor) if factor > 0 else (-remainder, -factor)


def verify_fractions(origin: Factorization, factors: list[Integers], modulus: int) -> VerifiedFactorization | None:
    """The scheme with each residue as a fraction, over the strictest field; None if it is not valid."""
    known: dict[int, str] = {}
    for residue in {int(value) % modulus for factor in factors for value in np.unique(factor)}:
        fraction = reconstruct_fraction(residue, modulus)
        if fraction is None:
            return None
        known[residue] = f"{fraction[0]}/{fraction[1]}"
    tables = [[[known[value] for value in row] for row in (factor % modulus).tolist()] for factor in factors]
    try:
        primitive = with_primitive_rows(claim_from_rows(origin.format, tables))
        return verify(convert(primitive, strictest_field(primitive)))
    except (NotAnAlgorithm, UsageError):  # fractions that are too large, or wrong
        return None


def _to_claim(origin: Factorization, factors: list[Integers]) -> Factorization:
    u, v, w = (factor.copy() for factor in factors)
    return replace(origin, field=Field.Z, u=u, v=v, w=w)


def _verify_centered(origin: Factorization, factors: list[Integers], modulus: int) -> VerifiedFactorization | None:
    """The scheme with coefficients centred around 0 modulo `modulus`; None if it is not valid over the integers."""
    reach = (modulus - 1) // 2
    claim = _to_claim(origin, [(factor + reach) % modulus - reach for factor in factors])
    field = Field.ZT if claim.largest_coefficient <= 1 else Field.Z
    try:
        return verify(replace(claim, field=field))
    except NotAnAlgorithm:
        return None


class _Corrections:
    """The Jacobian of a scheme modulo p, reduced once for all steps."""

    def __init__(self, claim: Factorization, deadline: float) -> None:
        self._shapes = [factor.shape for factor in claim.factors]
        prime = claim.field.characteristic
        values = np.concatenate([factor.ravel() != 0 for factor in claim.factors])
        self._order = np.argsort(~values, kind="stable")  # nonzero entries first: their corrections are signs
        system = LinearSystem(_jacobian(claim, prime)[:, self._order], prime, deadline)
        if system.is_late:
            raise LiftTimeout
        self._system = system

    def solve(self, error: Integers) -> list[Integers] | None:
        """The correction of each factor, in units of the modulus; None if there is none."""
        found = self._system.solve(error)
        if found is None:
            return None
        solution = np.zeros(len(found), dtype=np.int64)
        solution[self._order] = found
        boundaries = np.cumsum([rows * columns for rows, columns in self._shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(solution, boundaries), self._shapes, strict=True)]


def _jacobian(claim: Factorization, prime: int) -> Residues:
    """The Jacobian of the tensor with respect to the coefficients, negated, modulo p; [entries, coefficients]."""
    u, v, w = ((factor % prime).astype(np.uint8) for factor in claim.factors)
    a, b, c = claim.format.sizes
    rank = claim.rank
    by_u = np.einsum("ai,rj,rk->ijkra", np.eye(a, dtype=np.uint8), v, w).reshape(a * b * c, rank * a)
    by_v = np.einsum("ri,bj,rk->ijkrb", u, np.eye(b, dtype=np.uint8), w).reshape(a * b * c, rank * b)
    by_w = np.einsum("ri,rj,ck->ijkrc", u, v, np.eye(c, dtype=np.uint8)).reshape(a * b * c, rank * c)
    return (prime - np.concatenate([by_u, by_v, by_w], axis=1) % prime) % prime
