"""Where the coefficients of a scheme live. A rank over one field says nothing about another."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


class Field(StrEnum):
    GF2 = "gf2"  # 0 and 1, and 1 + 1 = 0: right for bits, wrong for numbers
    ZT = "zt"  # -1, 0, 1
    Z = "z"  # whole numbers
    Q = "q"  # fractions

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


MEANINGS = {
    Field.GF2: "modulo 2",
    Field.ZT: "coefficients -1, 0 and 1",
    Field.Z: "whole coefficients",
    Field.Q: "fractions",
}
LIBRARY_KEYS = {"ternary": Field.ZT, "z2": Field.GF2, "int": Field.Z}


def parse_field(text: str) -> Field:
    word = text.strip().lower()
    if word in LIBRARY_KEYS:
        return LIBRARY_KEYS[word]
    if word not in set(Field):
        hint = did_you_mean(word, [*Field, *LIBRARY_KEYS]) or f"Known: {', '.join(Field)}."
        raise UsageError(f"No field is called '{text}'.", hint)
    return Field(word)


Rows = list[list[int]]


def matrix_rank(matrix: Sequence[Sequence[int]], prime: int) -> int:
    echelon = Echelon(prime)
    return sum(echelon.add(list(row)) for row in matrix)


class Echelon:
    """Equations in reduced form; each new one is brought to what is known already."""

    def __init__(self, prime: int) -> None:
        self._prime = prime
        self._rows: dict[int, list[int]] = {}  # pivot -> row with a 1 there

    def copy(self) -> Echelon:
        twin = Echelon(self._prime)
        twin._rows = dict(self._rows)
        return twin

    def add(self, row: list[int]) -> bool:
        """Whether it said something new."""
        prime = self._prime
        row = [value % prime for value in row]
        for place in range(len(row)):
            if not row[place]:
                continue
            known = self._rows.get(place)
            if known is None:
                inverse = pow(row[place], -1, prime)
                self._rows[place] = [value * inverse % prime for value in row]
                return True
            factor = row[place]
            row = [(value - factor * other) % prime for value, other in zip(row, known, strict=True)]
        return False

    @property
    def rank(self) -> int:
        return len(self._rows)

    def kernel(self, size: int) -> Rows:
        """A basis of all that satisfies the equations."""
        free = [place for place in range(size) if place not in self._rows]
        return [self._solve(place, size) for place in free]

    def _solve(self, free: int, size: int) -> list[int]:
        solution = [0] * size
        solution[free] = 1
        for place in sorted(self._rows, reverse=True):
            row = self._rows[place]
            solution[place] = -sum(row[k] * solution[k] for k in range(place + 1, size) if row[k]) % self._prime
        return solution


def matmul(left: Rows, right: Rows, prime: int) -> Rows:
    columns = list(zip(*right, strict=True))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) % prime for column in columns] for row in left]


def invert_matrix(base: Rows, prime: int) -> Rows:
    """Of a square matrix that has one."""
    side = len(base)
    work = [[value % prime for value in row] + [int(i == k) for k in range(side)] for i, row in enumerate(base)]
    for place in range(side):
        pivot = next(i for i in range(place, side) if work[i][place])
        work[place], work[pivot] = work[pivot], work[place]
        inverse = pow(work[place][place], -1, prime)
        work[place] = [value * inverse % prime for value in work[place]]
        for i in range(side):
            if i != place and work[i][place]:
                factor = work[i][place]
                work[i] = [(a - factor * b) % prime for a, b in zip(work[i], work[place], strict=True)]
    return [row[side:] for row in work]
