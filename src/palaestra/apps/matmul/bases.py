"""Other bases for the spaces of a product: what is one scheme in one basis is another scheme in another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.field import Field

if TYPE_CHECKING:
    from palaestra.apps.matmul.factorization import Integers

Bases = tuple["Base", "Base", "Base"]


@dataclass(frozen=True, eq=False)
class Base:
    """`matrix` leads to the new coordinates, `inverse` back; both are whole."""

    matrix: Integers  # [size, size]
    inverse: Integers  # [size, size]


def standard_base(size: int) -> Base:
    return Base(np.eye(size, dtype=np.int64), np.eye(size, dtype=np.int64))


def random_base(size: int, field: Field, dice: np.random.Generator) -> Base:
    """Rows are added to others, and the inverse is kept in step, so that no fraction ever appears.

    Modulo 2 there are enough additions to reach every base; over the whole numbers few, since entries grow.
    """
    matrix = np.eye(size, dtype=np.int64)[dice.permutation(size)]
    inverse = matrix.T.copy()
    additions = 4 * size * size if field is Field.GF2 else size
    for _ in range(additions if size > 1 else 0):
        target, source = dice.choice(size, 2, replace=False)
        sign = int(dice.choice((-1, 1)))
        matrix[target] += sign * matrix[source]
        inverse[:, source] -= sign * inverse[:, target]
        if field is Field.GF2:
            matrix %= 2
            inverse %= 2
    return Base(matrix, inverse)


def change_bases(tensor: Integers, bases: Bases, field: Field) -> Integers:
    """The tensor [A, B, C] in new coordinates."""
    first, second, third = (base.matrix for base in bases)
    changed: Integers = np.einsum("ia,jb,kc,abc->ijk", first, second, third, tensor, optimize=True)
    return changed % 2 if field is Field.GF2 else changed


def change_back(factor: Integers, base: Base, field: Field) -> Integers:
    """Rows [rank, size] that were found in new coordinates, in the old ones."""
    back: Integers = factor @ base.inverse.T
    return back % 2 if field is Field.GF2 else back
