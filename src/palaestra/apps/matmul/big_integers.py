"""A scheme for matrices of Python's own integers, of any length: all blocks of a level as one array of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.executor import THOROUGH, check_field
from palaestra.apps.matmul.straight_line import Program, scheme_programs

if TYPE_CHECKING:
    from palaestra.apps.matmul.leaf import Matrix
    from palaestra.apps.matmul.straight_line import Term
    from palaestra.apps.matmul.verification import VerifiedFactorization


class BigIntegerExecutor:
    def __init__(self, scheme: VerifiedFactorization) -> None:
        check_field(scheme, "object")
        self.scheme = scheme
        self.programs = scheme_programs(scheme.claim, THOROUGH)

    def __call__(self, a: Matrix, b: Matrix, levels: int = 1) -> Matrix:
        """Sides that the format does not divide are filled up with zeros."""
        high, deep, wide = (side**levels for side in self.scheme.format.sides)
        rows, columns = a.shape[0], b.shape[1]
        made = self._multiply(_filled(a, high, deep)[None], _filled(b, deep, wide)[None], levels)
        return made[0, :rows, :columns]

    def _multiply(self, a: Matrix, b: Matrix, levels: int) -> Matrix:
        """[batch, rows, inner] by [batch, inner, columns]."""
        if levels == 0:
            return a * b if a.shape[1:] == b.shape[1:] == (1, 1) else np.matmul(a, b)
        n, m, p = self.scheme.format.sides
        left = combined(self.programs.left, _blocks(a, n, m))
        right = combined(self.programs.right, _blocks(b, m, p))
        made = self._multiply(np.concatenate(left), np.concatenate(right), levels - 1)
        return _joined(combined(self.programs.product, np.split(made, self.scheme.rank)), n, p)


def combined(program: Program, given: list[Matrix]) -> list[Matrix]:
    """The program's outputs, with an addition or subtraction where a coefficient is 1 or -1."""
    known = list(given)
    for pair in program.steps:
        known.append(_total(pair, known))
    return [_total(terms, known) if terms else given[0] * 0 for terms in program.outputs]


def _total(terms: tuple[Term, ...], known: list[Matrix]) -> Matrix:
    ordered = sorted(terms, key=lambda term: term[1] != 1)
    value, times = ordered[0]
    total = _multiple(known[value], times)
    for value, times in ordered[1:]:
        total = total - known[value] if times == -1 else total + _multiple(known[value], times)
    return total


def _multiple(value: Matrix, times: int) -> Matrix:
    return value if times == 1 else value * times


def _blocks(batch: Matrix, high: int, wide: int) -> list[Matrix]:
    rows, columns = batch.shape[1] // high, batch.shape[2] // wide
    return [
        batch[:, i * rows : (i + 1) * rows, j * columns : (j + 1) * columns] for i in range(high) for j in range(wide)
    ]


def _joined(blocks: list[Matrix], high: int, wide: int) -> Matrix:
    return np.concatenate([np.concatenate(blocks[i * wide : (i + 1) * wide], axis=2) for i in range(high)], axis=1)


def _filled(matrix: Matrix, rows: int, columns: int) -> Matrix:
    high, wide = (-(-side // unit) * unit for side, unit in zip(matrix.shape, (rows, columns), strict=True))
    if (high, wide) == matrix.shape:
        return matrix
    filled = np.zeros((high, wide), dtype=object)
    filled[: matrix.shape[0], : matrix.shape[1]] = matrix
    return filled
