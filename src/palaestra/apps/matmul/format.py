"""Which product is meant: `3x4x5` is a 3x4 matrix times a 4x5 matrix."""

from __future__ import annotations

import re
from dataclasses import dataclass

from palaestra.core.errors import UsageError

LARGEST_SIDE = 12  # the tensor of 12x12x12 has three million entries; beyond that a proof needs another way
SHAPE = re.compile(r"(\d{1,9})x(\d{1,9})x(\d{1,9})")
EXAMPLE = "Write rows x inner x columns, for example 3x3x3."


@dataclass(frozen=True, order=True)
class Format:
    rows: int  # of A and of the product
    inner: int  # columns of A, rows of B
    columns: int  # of B and of the product

    def __post_init__(self) -> None:
        for side in self.sides:
            if not 1 <= side <= LARGEST_SIDE:
                raise UsageError(f"The format {self} has a side of {side}.", f"Sides go from 1 to {LARGEST_SIDE}.")

    def __str__(self) -> str:
        return "x".join(map(str, self.sides))

    @property
    def sides(self) -> tuple[int, int, int]:
        return self.rows, self.inner, self.columns

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Entries of A, of B and of the product."""
        return self.rows * self.inner, self.inner * self.columns, self.rows * self.columns

    @property
    def schoolbook_rank(self) -> int:
        return self.rows * self.inner * self.columns

    @property
    def ascending(self) -> Format:
        """Formats with the same sides have the same rank: one stands for all."""
        return Format(*sorted(self.sides))


def parse_format(text: str) -> Format:
    match = SHAPE.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(f"'{text}' is not a format.", EXAMPLE)
    rows, inner, columns = map(int, match.groups())
    return Format(rows, inner, columns)
