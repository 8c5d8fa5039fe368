"""Schemes over GF(2) as bit masks: entry k of a factor is bit k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.factorization import Factorization, Integers
from palaestra.apps.matmul.field import Field
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.format import Format

Masks = list[list[int]]  # rows of three
BITS = 64


def check_fits(format_: Format) -> None:
    if max(format_.sizes) > BITS:
        raise UsageError(f"{format_} is too large to be searched.", f"A matrix may have {BITS} entries: up to 8x8x8.")


def to_masks(claim: Factorization) -> Masks:
    check_fits(claim.format)
    columns = [[_mask(row) for row in factor.tolist()] for factor in claim.factors]
    return [list(row) for row in zip(*columns, strict=True)]


def from_masks(masks: Masks, format_: Format) -> Factorization:
    u, v, w = (_bits([row[k] for row in masks], size) for k, size in enumerate(format_.sizes))
    return Factorization(format_, Field.GF2, u, v, w)


def _mask(row: list[int]) -> int:
    return sum(1 << place for place, value in enumerate(row) if value % 2)


def _bits(column: list[int], size: int) -> Integers:
    return np.array([[mask >> place & 1 for place in range(size)] for mask in column], dtype=np.int64).reshape(-1, size)
