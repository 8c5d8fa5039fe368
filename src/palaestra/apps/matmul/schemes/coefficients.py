"""Coefficients of scheme files: integers, fractions, decimals and Gaussian numbers, read exactly.

A file's tables become one `Factorization` over q, or over qi if there are imaginary parts; `readings` says over which
fields it may hold.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.schemes.factorization import LARGEST_COEFFICIENT, Factorization, Format, Integers
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

DENOMINATORS = (1, 2, 4, 8, 16, 32, 64)  # of floating-point numbers
MAX_LENGTH = 64  # characters of a coefficient
NUMBER = r"\d{1,20}(?:\.\d{1,20})?(?:/\d{1,20})?"
TERM = re.compile(rf"([+-]?)(?:({NUMBER})(?:\*?([iIjJ])(?:/(\d{{1,20}}))?)?|([iIjJ])(?:/(\d{{1,20}}))?)")
MAX_ROWS = 1 << 13  # 16x16x16 has 4,096
MAX_DIFFERENT = 10_000  # coefficients of a table
Number = tuple[Fraction, Fraction]  # real and imaginary part


def parse_coefficient(value: Any) -> Number:
    """An integer, a float with an exact small fraction, or text such as -3/2, 0.5, i, 1/2+1/2*I."""
    if isinstance(value, bool):
        raise UsageError(f"Invalid coefficient: {value}.", "Expected a number.")
    if isinstance(value, int):
        return Fraction(value), Fraction(0)
    if isinstance(value, float):
        return _checked_float(value), Fraction(0)
    if not isinstance(value, str) or len(value) > MAX_LENGTH:
        raise UsageError(f"Invalid coefficient: {str(value)[:MAX_LENGTH]!r}.", "Expected a number such as -1, 3/2, i.")
    return _parse_text(value)


def format_number(number: tuple[int | Fraction, int | Fraction]) -> str:
    """Text that `parse_coefficient` reads."""
    real, imaginary = number
    if not imaginary:
        return str(real)
    return f"{real}{'-' if imaginary < 0 else '+'}{abs(imaginary)}*i"


def claim_from_rows(format_: Format, tables: Iterable[Sequence[Sequence[Any]]]) -> Factorization:
    """The raw claim of a file whose tables u, v and w are lists of rows of coefficients.

    Common factors of the rows of u and v move to w, so that only w has a denominator.
    """
    found = [list(table) for table in tables]
    if len({len(table) for table in found}) != 1:
        raise UsageError("u, v and w have different numbers of rows.", "Is the file complete?")
    for table, name, size in zip(found, "uvw", format_.sizes, strict=True):
        _check_rows(table, name, size)
    u, v, w = (_row_numbers(table) for table in found)
    for first, second, third in zip(u, v, w, strict=True):
        scale = 1 / (_make_primitive(first) * _make_primitive(second))
        _multiply(third, scale)
    denominator = lcm(*{part.denominator for row in w for number in row.values() for part in number})
    for row in w:
        _multiply(row, Fraction(denominator))
    if denominator > LARGEST_COEFFICIENT:
        raise UsageError(f"The common denominator is {denominator:,}.", f"At most {LARGEST_COEFFICIENT:,} is possible.")
    made = [_integer_table(*each) for each in zip(found, (u, v, w), "uvw", (1, 1, denominator), strict=True)]
    return _claim(format_, made)


def claim_from_arrays(format_: Format, tables: Sequence[NDArray[Any]]) -> Factorization:
    """The raw claim of a file whose tables are arrays of integers, floats or complex numbers."""
    found = []
    for table, name in zip(tables, "uvw", strict=True):
        denominator = _denominator_of(table, name)
        scaled = table * denominator if denominator > 1 else table
        found.append((_whole(scaled.real, name), _whole(scaled.imag, name), denominator))
    return _claim(format_, found)


Table = tuple["Integers", "Integers", int]  # real and imaginary numerators, denominator


def _claim(format_: Format, tables: Sequence[Table]) -> Factorization:
    (u, x, one), (v, y, other), (w, z, third) = tables
    is_complex = any(imaginary.any() for _, imaginary, _ in tables)
    return Factorization(
        format_,
        Field.QI if is_complex else Field.Q,
        u,
        v,
        w,
        (one, other, third),
        (x, y, z) if is_complex else None,
    )


def _check_rows(rows: list[Any], name: str, size: int) -> None:
    if not 0 < len(rows) <= MAX_ROWS:
        raise UsageError(f"{name} has {len(rows):,} rows.", f"Expected 1 to {MAX_ROWS:,}.")
    if any(not isinstance(row, list | tuple) or len(row) != size for row in rows):
        raise UsageError(f"{name} is not a table of numbers with {size} columns.", "All rows need that length.")


RowNumbers = dict[Any, Number]  # by the value in the file


def _row_numbers(table: list[Any]) -> list[RowNumbers]:
    """The different coefficients of each row."""
    different = [{_key(value) for value in row} for row in table]
    parsed = _parsed(set().union(*different))
    return [{value: parsed[value] for value in values} for values in different]


def _make_primitive(row: RowNumbers) -> Fraction:
    """Multiplies the row by the returned number, so that it becomes integer without a common divisor."""
    parts = [part for number in row.values() for part in number]
    denominator = lcm(*(part.denominator for part in parts))
    factor = Fraction(denominator, gcd(*(int(part * denominator) for part in parts)) or 1)
    _multiply(row, factor)
    return factor


def _multiply(row: RowNumbers, factor: Fraction) -> None:
    if factor != 1:
        row.update({value: (real * factor, imaginary * factor) for value, (real, imaginary) in row.items()})


def _integer_table(table: list[Any], rows: list[RowNumbers], name: str, denominator: int) -> Table:
    """The table whose values have become integers."""
    if any(abs(part) > LARGEST_COEFFICIENT for row in rows for number in row.values() for part in number):
        raise UsageError(f"{name} has a coefficient above {LARGEST_COEFFICIENT}.", "Is the file damaged?")
    parts = []
    for at in range(2):
        whole = [{value: int(number[at]) for value, number in row.items()} for row in rows]
        lines = [[numbers[value] for value in line] for line, numbers in zip(table, whole, strict=True)]
        parts.append(np.array(lines, dtype=np.int64))
    return parts[0], parts[1], denominator


def _key(value: Any) -> Any:
    """The value, if it can be a coefficient; lists and others are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UsageError(f"Invalid coefficient: {str(value)[:MAX_LENGTH]!r}.", "Expected a number such as -1, 3/2, i.")
    return value


def _parsed(values: set[Any]) -> dict[Any, Number]:
    if len(values) > MAX_DIFFERENT:
        raise UsageError(f"A table has {len(values):,} different coefficients.", f"At most {MAX_DIFFERENT:,} are read.")
    return {value: parse_coefficient(value) for value in values}


def _denominator_of(table: NDArray[Any], name: str) -> int:
    """The smallest power of two that makes all entries integers."""
    if table.dtype.kind in "iub":
        return 1
    if not np.isfinite(table).all():
        raise UsageError(f"{name} has entries that are not finite.", "Is the file damaged?")
    for denominator in DENOMINATORS:
        scaled = table * denominator
        if (scaled == np.round(scaled)).all():
            return denominator
    raise UsageError(
        f"{name} has coefficients that are no multiples of 1/{DENOMINATORS[-1]}.",
        "Floating-point thirds are not exact; write fractions as text, such as 1/3.",
    )


def _whole(values: NDArray[Any], name: str) -> Integers:
    if values.size and not (np.abs(values.astype(np.float64)) <= LARGEST_COEFFICIENT).all():
        raise UsageError(f"{name} has a coefficient above {LARGEST_COEFFICIENT}.", "Is the file damaged?")
    return np.ascontiguousarray(values.astype(np.int64))


def _checked_float(value: float) -> Fraction:
    exact = Fraction(value) if abs(value) <= LARGEST_COEFFICIENT else Fraction(0)
    if exact.denominator > DENOMINATORS[-1] or exact != value:
        raise UsageError(f"Coefficient {value} is no small fraction.", "Write fractions as text, such as 1/3.")
    return exact


def _parse_text(text: str) -> Number:
    word = re.sub(r"\s*([-+*/])\s*", r"\1", text.strip())
    real, imaginary, at = Fraction(0), Fraction(0), 0
    while at < len(word):
        match = TERM.match(word, at)
        if match is None or match.end() == at or (at and not match.group(1)):
            raise UsageError(f"Invalid coefficient: '{text}'.", "Expected a number such as -1, 3/2, i, 1/2+1/2*I.")
        sign, number, unit, below, alone, alone_below = match.groups()
        try:
            size = _fraction(number) if number else Fraction(1)
            size /= int(below or alone_below or 1)
        except ZeroDivisionError as error:
            raise UsageError(f"Coefficient '{text}' divides by zero.") from error
        size = -size if sign == "-" else size
        if unit or alone:
            imaginary += size
        else:
            real += size
        at = match.end()
    if not word:
        raise UsageError("Empty coefficient.", "Expected a number.")
    return real, imaginary


def _fraction(text: str) -> Fraction:
    above, _, below = text.partition("/")
    return Fraction(above) / int(below or 1)
