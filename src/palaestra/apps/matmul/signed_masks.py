"""Schemes over zt as bit masks: of each factor what is added, and what is taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.factorization import Factorization, Integers
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.masks import check_fits
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.format import Format

SignedMasks = list[list[int]]  # rows of six: plus and minus of u, of v and of w


def to_signed_masks(claim: Factorization) -> SignedMasks:
    check_fits(claim.format)
    if claim.largest_coefficient > 1:
        raise UsageError(f"A coefficient is {claim.largest_coefficient}.", "Only -1, 0 and 1 fit into masks.")
    tables = [factor.tolist() for factor in claim.factors]
    return [[_signed_mask(table[row], sign) for table in tables for sign in (1, -1)] for row in range(claim.rank)]


def from_signed_masks(masks: SignedMasks, format_: Format) -> Factorization:
    u, v, w = (_signs([row[2 * k : 2 * k + 2] for row in masks], size) for k, size in enumerate(format_.sizes))
    return Factorization(format_, Field.ZT, u, v, w)


def _signed_mask(row: list[int], sign: int) -> int:
    return sum(1 << place for place, value in enumerate(row) if value == sign)


def _signs(pairs: list[list[int]], size: int) -> Integers:
    rows = [[(plus >> place & 1) - (minus >> place & 1) for place in range(size)] for plus, minus in pairs]
    return np.array(rows, dtype=np.int64).reshape(-1, size)
