"""Formats of matrix products and factorizations of their tensors.

A `Factorization` is a claim that its rows multiply matrices; `verification.verify` checks it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.apps.matmul.schemes.fields import Field

Integers = NDArray[np.int64]
LARGEST_COEFFICIENT = 1 << 26  # most schemes have 1 or 2, published ones up to 50 million; more is a damaged file


@dataclass(frozen=True, eq=False)
class Factorization:
    """Row r computes (u[r] . A) * (v[r] . B) and adds w[r] times the product to C; all matrices in row-major order.

    Over q and qi each of u, v and w is divided by its denominator; over zi and qi they are the real parts.
    """

    format: Format
    field: Field
    u: Integers  # [rank, rows * inner]
    v: Integers  # [rank, inner * columns]
    w: Integers  # [rank, rows * columns]: C itself, not its transpose
    denominators: tuple[int, int, int] = (1, 1, 1)
    imaginary: tuple[Integers, Integers, Integers] | None = None  # like u, v and w; only over zi and qi

    def __post_init__(self) -> None:
        rank = len(self.u)
        tables = [*self.factors, *(self.imaginary or ())]
        names = ("u", "v", "w", "imaginary u", "imaginary v", "imaginary w")
        for name, factor, size in zip(names, tables, 2 * self.format.sizes, strict=False):
            if factor.dtype != np.int64 or factor.shape != (rank, size):
                raise UsageError(
                    f"Invalid {name}: {factor.dtype} of shape {list(factor.shape)}.",
                    f"For {self.format} with {rank} rows it must be int64 of shape [{rank}, {size}].",
                )
            factor.setflags(write=False)
        if any(denominator < 1 for denominator in self.denominators):
            raise UsageError(f"Invalid denominators: {self.denominators}.", "They must be positive integers.")
        if (self.imaginary is not None) != self.field.is_complex:
            raise UsageError(f"Imaginary parts do not fit the field {self.field}.", "Only zi and qi have them.")

    @property
    def factors(self) -> tuple[Integers, Integers, Integers]:
        return self.u, self.v, self.w

    @property
    def tables(self) -> Tables:
        """u, v and w; complex128 if there are imaginary parts, which is exact below `LARGEST_COEFFICIENT`."""
        if self.imaginary is None:
            return self.factors
        u, v, w = (real + 1j * other for real, other in zip(self.factors, self.imaginary, strict=True))
        return u, v, w

    @property
    def rank(self) -> int:
        return len(self.u)

    @property
    def largest_coefficient(self) -> int:
        """The largest absolute value of a numerator, of real and imaginary parts."""
        tables = (*self.factors, *(self.imaginary or ()))
        return max((int(np.abs(factor).max()) for factor in tables if factor.size), default=0)


Tables = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # int64 or complex128 with integer parts, [rank, entries]


def with_tables(claim: Factorization, tables: Iterable[NDArray[Any]], **changes: Any) -> Factorization:
    """The scheme with other tables, as `Factorization.tables` gives them, and other fields if named."""
    given = list(tables)
    u, v, w = (np.ascontiguousarray(table.real).astype(np.int64) for table in given)
    if changes.get("field", claim.field).is_complex:
        changes["imaginary"] = tuple(np.ascontiguousarray(table.imag).astype(np.int64) for table in given)
    else:
        changes["imaginary"] = None
    return replace(claim, u=u, v=v, w=w, **changes)


def nonzero_rows(tables: Iterable[NDArray[Any]]) -> NDArray[np.bool_]:
    """Rows in which no factor is zero; tables are [rank, …]."""
    kept: NDArray[np.bool_] = np.logical_and.reduce([table.reshape(len(table), -1).any(axis=1) for table in tables])
    return kept


def to_integers(values: Any, name: str = "a factor") -> Integers:
    """Values from a file as int64; fractions and huge values raise UsageError, nothing is rounded."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise UsageError(f"{name} is not a table of numbers: {error}.", "All rows need one length.") from error
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise UsageError(f"{name} is not a table of integers.", "Rows of integers are expected.")
    if array.size and not (np.abs(array.astype(np.float64)) <= LARGEST_COEFFICIENT).all():
        raise UsageError(f"{name} has a coefficient above {LARGEST_COEFFICIENT}.", "Is the file damaged?")
    whole = array.astype(np.int64)
    if not (whole == array).all():
        raise UsageError(f"{name} has a coefficient that is not an integer.", "Use 'denominators' for fractions.")
    return whole


def naive_factorization(format_: Format, field: Field) -> Factorization:
    """One multiplication for each of rows * inner * columns."""
    sides = np.indices(format_.sides).reshape(3, -1)
    row, inner, column = sides
    places = (row * format_.inner + inner, inner * format_.columns + column, row * format_.columns + column)
    u, v, w = (np.eye(size, dtype=np.int64)[place] for size, place in zip(format_.sizes, places, strict=True))
    imaginary = (np.zeros_like(u), np.zeros_like(v), np.zeros_like(w)) if field.is_complex else None
    return Factorization(format_, field, u, v, w, imaginary=imaginary)


LARGEST_SIDE = 16  # factors of 256 entries
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
                raise UsageError(f"Invalid format {self}: side {side}.", f"Sides must be between 1 and {LARGEST_SIDE}.")

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
    def naive_rank(self) -> int:
        return self.rows * self.inner * self.columns

    @property
    def ascending(self) -> Format:
        """The representative of all formats with the same sides, which have the same rank."""
        return Format(*sorted(self.sides))


def parse_format(text: str) -> Format:
    match = SHAPE.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(f"Invalid format: '{text}'.", EXAMPLE)
    rows, inner, columns = map(int, match.groups())
    return Format(rows, inner, columns)
