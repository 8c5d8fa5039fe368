"""Verification of a factorization: the tensor identity, entry by entry, in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as declare
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import PalaestraError

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers

LARGEST_SUM = 2**62  # sums below it are exact in int64
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
    empty = int(sum(not all(factor[row].any() for factor in claim.factors) for row in range(claim.rank)))
    if empty:
        raise NotAnAlgorithm(f"{empty} of {claim.rank} rows have a factor of zeros.", "Remove these rows.")
    wrong = int(np.count_nonzero(residual(claim)))
    if wrong:
        raise NotAnAlgorithm(
            f"The scheme does not multiply {claim.format} matrices ({claim.field.meaning}): "
            f"the residual has {wrong} nonzero entries.",
            "Check the field, and whether the third factor is transposed.",
        )
    return VerifiedFactorization(claim, _PROOF)


def residual(claim: Factorization) -> Integers:
    """Sum of the rows' outer products minus the tensor, [A, B, C]; zero if the claim holds."""
    scale = prod(claim.denominators)
    bound = scale + claim.rank * prod(_largest(factor) for factor in claim.factors)
    u, v, w = claim.factors
    if bound >= LARGEST_SUM:
        u, v, w = (factor.astype(object) for factor in claim.factors)
    pairs = (v[:, :, None] * w[:, None, :]).reshape(claim.rank, v.shape[1] * w.shape[1])
    total = (u.T @ pairs).reshape(claim.format.sizes)
    difference: Integers = total - scale * product_tensor(claim.format).astype(total.dtype)
    return difference % 2 if claim.field is Field.GF2 else difference


def product_tensor(format_: Format) -> Integers:
    """The matrix-multiplication tensor [A, B, C]: 1 where an entry of A times an entry of B contributes to one of C."""
    tensor = np.zeros(format_.sizes, dtype=np.int64)
    row, inner, column = np.indices(format_.sides).reshape(3, -1)
    tensor[row * format_.inner + inner, inner * format_.columns + column, row * format_.columns + column] = 1
    return tensor


def _check_coefficients(claim: Factorization) -> None:
    """Checks that all coefficients are in the field."""
    lowest = min((int(factor.min()) for factor in claim.factors if factor.size), default=0)
    largest = claim.largest_coefficient
    if claim.field is Field.GF2 and (lowest < 0 or largest > 1):
        raise NotAnAlgorithm(f"Over gf2 coefficients must be 0 or 1, got {lowest} to {largest}.", "Check the field.")
    if claim.field is Field.ZT and largest > 1:
        raise NotAnAlgorithm(f"Over zt coefficients must be -1, 0 or 1, got up to {largest}.", "Try the field z.")
    if claim.field is not Field.Q and claim.denominators != (1, 1, 1):
        raise NotAnAlgorithm(f"Denominators are not allowed over {claim.field}.", "Try the field q.")


def _largest(factor: Integers) -> int:
    return int(np.abs(factor).max()) if factor.size else 0
