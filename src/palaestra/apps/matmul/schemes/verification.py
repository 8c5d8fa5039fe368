"""Verification of a factorization: the tensor identity, entry by entry, in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as declare
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import PalaestraError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers

LARGEST_SUM = 2**62  # sums below it are exact in int64
MODULI = (1_048_573, 1_048_571, 1_048_559, 1_048_549, 1_048_517)  # primes: products of residues stay below 2^40
_PROOF = object()


class NotAnAlgorithm(PalaestraError):
    """The factorization does not compute the matrix product."""


@dataclass(frozen=True, eq=False)
class VerifiedFactorization:
    """A verified factorization; only `verify` creates instances."""

    claim: Factorization
    proof: object = declare(repr=False)

    def __post_init__(self) -> None:
        if self.proof is not _PROOF:
            raise TypeError("only verify() creates a VerifiedFactorization")

    @property
    def format(self) -> Format:
        return self.claim.format

    @property
    def field(self) -> Field:
        return self.claim.field

    @property
    def rank(self) -> int:
        return self.claim.rank


def verify(claim: Factorization) -> VerifiedFactorization:
    """Verifies the claim; raises `NotAnAlgorithm` with the number of wrong entries. Zero rows are refused."""
    _check_coefficients(claim)
    empty = claim.rank - int(np.logical_and.reduce([table.any(axis=1) for table in claim.tables]).sum())
    if empty:
        raise NotAnAlgorithm(f"{empty} of {claim.rank} rows have a factor of zeros.", "Remove these rows.")
    wrong = count_wrong_entries(claim)
    if wrong:
        raise NotAnAlgorithm(
            f"The scheme does not multiply {claim.format} matrices ({claim.field.meaning}): "
            f"the residual has {wrong} nonzero entries.",
            "Check the field, and whether the third factor is transposed.",
        )
    return VerifiedFactorization(claim, _PROOF)


def count_wrong_entries(claim: Factorization) -> int:
    """Entries of the matrix-multiplication tensor that the sum of the rows does not give; 0 if the claim holds.

    A sum that could exceed int64 is computed modulo several primes whose product exceeds it: it is 0 exactly if all
    its residues are.
    """
    bound = _bound(claim)
    if claim.field.characteristic:
        moduli: tuple[int, ...] = (claim.field.characteristic,)
    elif bound < LARGEST_SUM:
        moduli = (0,)
    else:
        moduli = MODULI
        if prod(moduli) <= 2 * bound:
            raise NotAnAlgorithm(f"Coefficients and denominators are too large to verify ({bound:.1e}).")
    by_modulus = [_slices(claim, modulus) for modulus in moduli]
    return sum(int(np.logical_or.reduce(parts).sum()) for parts in zip(*by_modulus, strict=True))


def residual(claim: Factorization, modulus: int = 0) -> Integers:
    """Sum of the rows' outer products minus the tensor, [A, B, C]; zero if the claim holds. For real coefficients.

    `modulus`: up to 2^21; 0 for the integers, and 2 or 3 for schemes over gf2 and z3.
    """
    modulus = modulus or claim.field.characteristic
    if claim.imaginary is not None or (not modulus and _bound(claim) >= LARGEST_SUM):
        raise UsageError("The residual is defined for real coefficients below 2^62 in sum.")
    factors, scale = _reduced(claim.factors, modulus), _scale(claim, modulus)
    slices = []
    for index in range(claim.format.sizes[2]):
        total = _outer_sum(*factors, index, modulus)
        _subtract_product(total, claim.format, index, scale)
        slices.append(total % modulus if modulus else total)
    return np.stack(slices, axis=-1)


def product_tensor(format_: Format) -> Integers:
    """The matrix-multiplication tensor [A, B, C]: 1 where an entry of A times an entry of B contributes to one of C."""
    tensor = np.zeros(format_.sizes, dtype=np.int64)
    row, inner, column = np.indices(format_.sides).reshape(3, -1)
    tensor[row * format_.inner + inner, inner * format_.columns + column, row * format_.columns + column] = 1
    return tensor


Factors = tuple["Integers", "Integers", "Integers"]


def _slices(claim: Factorization, modulus: int) -> Iterator[np.ndarray]:
    """For each entry of C, whether the sum differs from the tensor, [A, B]; memory stays small at 16x16x16."""
    real = _reduced(claim.factors, modulus)
    other = None if claim.imaginary is None else _reduced(claim.imaginary, modulus)
    scale = _scale(claim, modulus)
    for index in range(claim.format.sizes[2]):
        total = _outer_sum(*real, index, modulus)
        imaginary = None
        if other is not None:
            (u, v, w), (x, y, z) = real, other
            total -= _outer_sum(u, y, z, index, modulus)
            total -= _outer_sum(x, v, z, index, modulus)
            total -= _outer_sum(x, y, w, index, modulus)
            imaginary = _outer_sum(x, v, w, index, modulus) - _outer_sum(x, y, z, index, modulus)
            imaginary += _outer_sum(u, y, w, index, modulus) + _outer_sum(u, v, z, index, modulus)
        _subtract_product(total, claim.format, index, scale)
        differs = (total % modulus if modulus else total) != 0
        if imaginary is not None:
            differs |= (imaginary % modulus if modulus else imaginary) != 0
        yield differs


def _outer_sum(u: Integers, v: Integers, w: Integers, index: int, modulus: int) -> Integers:
    """The sum over rows of u ⊗ v times entry `index` of w, [A, B]; below 2^53 if there is a modulus."""
    rows = np.flatnonzero(w[:, index])
    weighted = v[rows] * w[rows, index, None]
    total: Integers = u[rows].T @ (weighted % modulus if modulus else weighted)
    return total


def _subtract_product(total: Integers, format_: Format, index: int, scale: int) -> None:
    """Subtracts scale * (the tensor's slice of entry `index` of C) in place."""
    row, column = divmod(index, format_.columns)
    inner = np.arange(format_.inner)
    total[row * format_.inner + inner, inner * format_.columns + column] -= scale


def _reduced(factors: Factors, modulus: int) -> Factors:
    if not modulus:
        return factors
    u, v, w = (factor % modulus for factor in factors)
    return u, v, w


def _scale(claim: Factorization, modulus: int) -> int:
    scale = prod(claim.denominators)
    return scale % modulus if modulus else scale


def _bound(claim: Factorization) -> int:
    """No sum of the identity is larger in absolute value."""
    largest = prod(int(np.abs(factor).max()) if factor.size else 0 for factor in claim.factors)
    if claim.imaginary is not None:
        largest = 4 * claim.largest_coefficient**3
    return prod(claim.denominators) + claim.rank * largest


def _check_coefficients(claim: Factorization) -> None:
    """Checks that all coefficients are in the field."""
    lowest = min((int(factor.min()) for factor in claim.factors if factor.size), default=0)
    largest = claim.largest_coefficient
    if claim.field is Field.GF2 and (lowest < 0 or largest > 1):
        raise NotAnAlgorithm(f"Over gf2 coefficients must be 0 or 1, got {lowest} to {largest}.", "Check the field.")
    if claim.field in (Field.ZT, Field.Z3) and largest > 1:
        raise NotAnAlgorithm(
            f"Over {claim.field} coefficients must be -1, 0 or 1, got up to {largest}.", "Try the field z."
        )
    if not claim.field.has_fractions and claim.denominators != (1, 1, 1):
        raise NotAnAlgorithm(f"Denominators are not allowed over {claim.field}.", "Try the field q.")
