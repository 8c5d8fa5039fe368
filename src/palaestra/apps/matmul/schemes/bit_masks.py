"""Schemes as bit masks: entry k of a factor is bit k. Over GF(2), over zt and z3 with signs, and cyclic-symmetric ones.

The trace of XYZ equals that of YZX and ZXY, so schemes for square matrices can be symmetric under the cyclic rotation
of the factors: with a row (a, b, c), in trace form, they contain (b, c, a) and (c, a, b). One row represents such an
orbit; a cube (a, a, a) represents itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.factorization import Factorization, Integers
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Format

Masks = list[list[int]]  # rows of three masks; with signs of six, see SignedMasks
WORD_BITS = 64


def check_fits_word(format_: Format) -> None:
    """The guided walk has masks of one word; the others fit every format."""
    if max(format_.sizes) > WORD_BITS:
        raise UsageError(f"{format_} is too large.", f"Matrices may have up to {WORD_BITS} entries (8x8x8).")


def encode_claim(claim: Factorization) -> Masks:
    """The masks of a scheme over gf2, z3 or zt."""
    return to_masks(claim) if claim.field is Field.GF2 else to_signed_masks(claim)


def decode_claim(masks: Masks, format_: Format, field: Field) -> Factorization:
    return from_masks(masks, format_) if field is Field.GF2 else from_signed_masks(masks, format_, field)


def to_masks(claim: Factorization) -> Masks:
    columns = [[_mask(row) for row in factor.tolist()] for factor in claim.factors]
    return [list(row) for row in zip(*columns, strict=True)]


def from_masks(masks: Masks, format_: Format) -> Factorization:
    u, v, w = (_bits([row[k] for row in masks], size) for k, size in enumerate(format_.sizes))
    return Factorization(format_, Field.GF2, u, v, w)


def _mask(row: list[int]) -> int:
    return sum(1 << place for place, value in enumerate(row) if value % 2)


def _bits(column: list[int], size: int) -> Integers:
    return np.array([[mask >> place & 1 for place in range(size)] for mask in column], dtype=np.int64).reshape(-1, size)


SignedMasks = list[list[int]]  # rows of six masks: the coefficients 1 and -1 of u, v and w


def to_signed_masks(claim: Factorization) -> SignedMasks:
    if claim.largest_coefficient > 1:
        raise UsageError(
            f"Coefficient {claim.largest_coefficient} does not fit into masks.", "Only -1, 0, 1 are allowed."
        )
    tables = [factor.tolist() for factor in claim.factors]
    return [[_signed_mask(table[row], sign) for table in tables for sign in (1, -1)] for row in range(claim.rank)]


def from_signed_masks(masks: SignedMasks, format_: Format, field: Field = Field.ZT) -> Factorization:
    u, v, w = (_signs([row[2 * k : 2 * k + 2] for row in masks], size) for k, size in enumerate(format_.sizes))
    return Factorization(format_, field, u, v, w)


def _signed_mask(row: list[int], sign: int) -> int:
    return sum(1 << place for place, value in enumerate(row) if value == sign)


def _signs(pairs: list[list[int]], size: int) -> Integers:
    rows = [[(plus >> place & 1) - (minus >> place & 1) for place in range(size)] for plus, minus in pairs]
    return np.array(rows, dtype=np.int64).reshape(-1, size)


MAX_CYCLIC_SIDE = 8  # masks of one word
MIN_CYCLIC_SIDE = 5  # below this side the ladder without symmetry is at least as fast


def supports_cyclic_search(format_: Format) -> bool:
    return len(set(format_.sides)) == 1 and MIN_CYCLIC_SIDE <= format_.rows <= MAX_CYCLIC_SIDE


def naive_cyclic_masks(side: int) -> Masks:
    """The naive scheme x_ij y_jk z_ki, one row of each orbit."""
    places = [(i, j, k) for i in range(side) for j in range(side) for k in range(side)]
    return [
        [1 << i * side + j, 1 << j * side + k, 1 << k * side + i]
        for i, j, k in places
        if (i, j, k) <= min((j, k, i), (k, i, j))
    ]


def cyclic_rank(masks: Masks) -> int:
    """The rank of the full scheme."""
    return sum(1 if is_cube(row) else 3 for row in masks)


def is_cube(row: list[int]) -> bool:
    return row[0] == row[1] == row[2]


def expand_cyclic(masks: Masks, side: int) -> Masks:
    """All rows of the scheme, with w of the product instead of the trace form."""
    found = []
    for a, b, c in masks:
        turns = [(a, b, c)] if a == b == c else [(a, b, c), (b, c, a), (c, a, b)]
        found += [[x, y, _transposed(z, side)] for x, y, z in turns]
    return found


def _transposed(mask: int, side: int) -> int:
    return sum(1 << j * side + i for i in range(side) for j in range(side) if mask >> i * side + j & 1)
