"""Factors as a picture: a row for each multiplication; u, v and w side by side, each coefficient a square."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.apps.matmul.factorization import Factorization, Integers

SQUARE = 12  # pixels
GAP = 6  # pixels between u, v and w, and around them
GROUND = (24, 26, 30)
NOTHING = (52, 56, 64)
PLUS = (247, 183, 51)
MINUS = (79, 148, 255)


def draw_factors(claim: Factorization, rows: int) -> NDArray[np.uint8]:
    """[height, width, 3]; `rows` are kept free from the start, so that the picture does not grow."""
    height = 2 * GAP + max(rows, claim.rank, 1) * SQUARE
    width = 4 * GAP + sum(claim.format.sizes) * SQUARE
    picture = np.full((height, width, 3), GROUND, np.uint8)
    left = GAP
    for factor, size in zip(claim.factors, claim.format.sizes, strict=True):
        picture[GAP : GAP + claim.rank * SQUARE, left : left + size * SQUARE] = _squares(factor)
        left += size * SQUARE + GAP
    return picture


def _squares(factor: Integers) -> NDArray[np.uint8]:
    """Larger coefficients are as bright as 1: the sign is what a person looks for."""
    colours = np.array([MINUS, NOTHING, PLUS], np.uint8)[np.sign(factor) + 1]  # [rank, size, 3]
    large: NDArray[np.uint8] = colours.repeat(SQUARE, axis=0).repeat(SQUARE, axis=1)
    large[SQUARE - 1 :: SQUARE] = large[:, SQUARE - 1 :: SQUARE] = GROUND
    return large
