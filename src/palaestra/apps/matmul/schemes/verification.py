"""The only way from a claim to an algorithm: the tensor identity, entry by entry, in whole numbers."""

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
    """A claim that does not hold."""


@dataclass(frozen=True, eq=False)
class VerifiedFactorization:
    """A factorization whose identity was checked; only `verify` makes one."""

    claim: Factorization
    proof: object = declare(repr=False)

    def __post_init__(self) -> None:
        if self.proof is not _PROOF:
            raise TypeError("only verify() makes a VerifiedFactorization")

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
    """The claim as a proof, or `NotAnAlgorithm` with how far it is from one. Rows that multiply nothing are refused."""
    _check_coefficients(claim)
    empty = int(sum(not all(factor[row].any() for factor in claim.factors) for row in range(claim.rank)))
    if empty:
        raise NotAnAlgorithm(f"{empty} of {claim.rank} rows multiply by nothing.", "Leave them out: they are not rank.")
    wrong = int(np.count_nonzero(residual(claim)))
    if wrong:
        raise NotAnAlgorithm(
            f"This does not multiply {claim.format} matrices ({claim.field.meaning}): "
            f"unsolved, the residual has {wrong} nonzeros.",
            "Is the field right, and the third factor not transposed?",
        )
    return VerifiedFactorization(claim, _PROOF)


def residual(claim: Factorization) -> Integers:
    """Sum of the rows' outer products minus the tensor, of shape [A, B, C]; all zero when the claim holds."""
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
    """1 where an entry of A times an entry of B belongs to an entry of C; shape [A, B, C]."""
    tensor = np.zeros(format_.sizes, dtype=np.int64)
    row, inner, column = np.indices(format_.sides).reshape(3, -1)
    tensor[row * format_.inner + inner, inner * format_.columns + column, row * format_.columns + column] = 1
    return tensor


def _check_coefficients(claim: Factorization) -> None:
    """A field is a promise about coefficients, too."""
    lowest = min((int(factor.min()) for factor in claim.factors if factor.size), default=0)
    largest = claim.largest_coefficient
    if claim.field is Field.GF2 and (lowest < 0 or largest > 1):
        raise NotAnAlgorithm(f"Over gf2 coefficients are 0 and 1, not {lowest} to {largest}.", "Is the field right?")
    if claim.field is Field.ZT and largest > 1:
        raise NotAnAlgorithm(f"Over zt coefficients are -1, 0 and 1, not up to {largest}.", "Is it a scheme over z?")
    if claim.field is not Field.Q and claim.denominators != (1, 1, 1):
        raise NotAnAlgorithm(f"Over {claim.field} there are no denominators.", "Is it a scheme over q?")


def _largest(factor: Integers) -> int:
    return int(np.abs(factor).max()) if factor.size else 0
