"""Fields of coefficients, and exact linear algebra modulo a prime. Ranks over different fields are not comparable."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


class Field(StrEnum):
    """Coefficients of a scheme, and what its identity is checked in. Strictly some are rings; the key is `field`."""

    GF2 = "gf2"  # 0 and 1, modulo 2: valid for bits, not for numbers
    Z3 = "z3"  # -1, 0 and 1, modulo 3
    ZT = "zt"  # -1, 0, 1
    Z = "z"  # integers
    Q = "q"  # rationals
    ZI = "zi"  # Gaussian integers a + bi
    QI = "qi"  # Gaussian rationals

    @property
    def meaning(self) -> str:
        return MEANINGS[self]

    @property
    def characteristic(self) -> int:
        """2 or 3; 0: valid for numbers."""
        return {Field.GF2: 2, Field.Z3: 3}.get(self, 0)

    @property
    def has_fractions(self) -> bool:
        return self in (Field.Q, Field.QI)

    @property
    def is_complex(self) -> bool:
        return self in (Field.ZI, Field.QI)


MEANINGS = {
    Field.GF2: "modulo 2",
    Field.Z3: "modulo 3",
    Field.ZT: "coefficients -1, 0 and 1",
    Field.Z: "integer coefficients",
    Field.Q: "fractions",
    Field.ZI: "Gaussian integers",
    Field.QI: "Gaussian fractions",
}
ALIASES = {"ternary": Field.ZT, "z2": Field.GF2, "gf3": Field.Z3, "int": Field.Z, "c": Field.QI}


def parse_field(text: str) -> Field:
    word = text.strip().lower()
    if word in ALIASES:
        return ALIASES[word]
    if word not in set(Field):
        hint = did_you_mean(word, [*Field, *ALIASES]) or f"Known: {', '.join(Field)}."
        raise UsageError(f"No field named '{text}'.", hint)
    return Field(word)


Rows = list[list[int]]


def matrix_rank(matrix: Sequence[Sequence[int]], prime: int) -> int:
    echelon = Echelon(prime)
    return sum(echelon.add(list(row)) for row in matrix)


class Echelon:
    """Linear equations in row echelon form modulo a prime."""

    def __init__(self, prime: int) -> None:
        self._prime = prime
        self._rows: dict[int, list[int]] = {}  # pivot column -> row with a 1 there

    def copy(self) -> Echelon:
        twin = Echelon(self._prime)
        twin._rows = dict(self._rows)
        return twin

    def add(self, row: list[int]) -> bool:
        """Adds an equation; True if it is independent of the earlier ones."""
        prime = self._prime
        row = [value % prime for value in row]
        for column in range(len(row)):
            if not row[column]:
                continue
            known = self._rows.get(column)
            if known is None:
                inverse = pow(row[column], -1, prime)
                self._rows[column] = [value * inverse % prime for value in row]
                return True
            factor = row[column]
            row = [(value - factor * other) % prime for value, other in zip(row, known, strict=True)]
        return False

    @property
    def rank(self) -> int:
        return len(self._rows)

    def kernel(self, size: int) -> Rows:
        """A basis of the solutions, for equations of `size` unknowns."""
        free = [column for column in range(size) if column not in self._rows]
        return [self._solve(column, size) for column in free]

    def _solve(self, free: int, size: int) -> list[int]:
        solution = [0] * size
        solution[free] = 1
        for column in sorted(self._rows, reverse=True):
            row = self._rows[column]
            solution[column] = -sum(row[k] * solution[k] for k in range(column + 1, size) if row[k]) % self._prime
        return solution


def matmul(left: Rows, right: Rows, prime: int) -> Rows:
    columns = list(zip(*right, strict=True))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) % prime for column in columns] for row in left]


def invert_matrix(base: Rows, prime: int) -> Rows:
    """The inverse of an invertible square matrix."""
    side = len(base)
    work = [[value % prime for value in row] + [int(i == k) for k in range(side)] for i, row in enumerate(base)]
    for column in range(side):
        pivot = next(i for i in range(column, side) if work[i][column])
        work[column], work[pivot] = work[pivot], work[column]
        inverse = pow(work[column][column], -1, prime)
        work[column] = [value * inverse % prime for value in work[column]]
        for i in range(side):
            if i != column and work[i][column]:
                factor = work[i][column]
                work[i] = [(a - factor * b) % prime for a, b in zip(work[i], work[column], strict=True)]
    return [row[side:] for row in work]
