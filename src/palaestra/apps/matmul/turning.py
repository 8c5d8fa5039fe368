"""Schemes for square matrices that stay the same when they are turned, modulo 2: a third of the rows stands for all.

The trace of XYZ is that of YZX and ZXY. A row (a, b, c) in the form of the trace stands for itself and its two turns,
and a cube (a, a, a) for itself alone. The schoolbook's scheme is of this kind, and far below it schemes are found much
sooner than among all, since there are so few rows to walk with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.apps.matmul.format import Format
    from palaestra.apps.matmul.masks import Masks

LEAST = 5  # sides; smaller formats are reached as soon, or sooner, by climbing


def can_turn(format_: Format) -> bool:
    return len(set(format_.sides)) == 1 and format_.rows >= LEAST


def turning_school(side: int) -> Masks:
    """The schoolbook's products x_ij y_jk z_ki, one of each three turns."""
    places = [(i, j, k) for i in range(side) for j in range(side) for k in range(side)]
    return [
        [1 << i * side + j, 1 << j * side + k, 1 << k * side + i]
        for i, j, k in places
        if (i, j, k) <= min((j, k, i), (k, i, j))
    ]


def turning_rank(masks: Masks) -> int:
    """Of all turns together."""
    return sum(1 if is_cube(row) else 3 for row in masks)


def is_cube(row: list[int]) -> bool:
    return row[0] == row[1] == row[2]


def spread(masks: Masks, side: int) -> Masks:
    """The whole scheme, as others write it: the third factor is that of the product, not of the trace."""
    found = []
    for a, b, c in masks:
        turns = [(a, b, c)] if a == b == c else [(a, b, c), (b, c, a), (c, a, b)]
        found += [[x, y, _transposed(z, side)] for x, y, z in turns]
    return found


def _transposed(mask: int, side: int) -> int:
    return sum(1 << j * side + i for i in range(side) for j in range(side) if mask >> i * side + j & 1)
