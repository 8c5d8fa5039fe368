"""Formulas, Python code and an image of a scheme."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.straight_line import naive_program, scheme_programs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from palaestra.apps.matmul.schemes.factorization import Factorization, Integers
    from palaestra.apps.matmul.schemes.straight_line import Program, Term


def formulas(claim: Factorization) -> list[str]:
    """m1 = (a11 + a22) * (b11 + b22), …, c11 = m1 + m4 - m5 + m7, …"""
    if claim.imaginary is not None:
        return _complex_formulas(claim)
    left, right, product = (naive_program(table) for table in (claim.u, claim.v, claim.w.T))
    a, b, c = entry_names(claim)
    lines = _products(left.outputs, right.outputs, a, b, "*")
    return lines + _entries(c, product.outputs, _numbered("m", claim.rank), _divisor(claim))


def straight_line(claim: Factorization, sign: str = "*") -> list[str]:
    """The formulas after common-subexpression elimination, with the counted additions; complex ones without it."""
    if claim.imaginary is not None:
        return _complex_formulas(claim, sign, "1j" if sign == "@" else "i")
    programs = scheme_programs(claim)
    a, b, c = entry_names(claim)
    lines, left = _named(programs.left, a, "s")
    more, right = _named(programs.right, b, "t")
    lines += more
    lines += _products(programs.left.outputs, programs.right.outputs, left, right, sign)
    last, known = _named(programs.product, _numbered("m", claim.rank), "p")
    return lines + last + _entries(c, programs.product.outputs, known, _divisor(claim))


def python_code(claim: Factorization) -> str:
    """A Python function for two NumPy arrays with sides divisible by the format's."""
    rows, inner, columns = claim.format.sides
    a, b, c = entry_names(claim)
    about = f"Blocks of a ({rows} x {inner}) times blocks of b ({inner} x {columns})"
    prime = claim.field.characteristic
    end = f" % {prime}" if prime else ""
    blocks = ", ".join(f"[{', '.join(row)}]" for row in _split(c, columns))
    body = [
        f'"""{about}, with {claim.rank} multiplications instead of {claim.format.naive_rank}."""',
        f"{_unpacked(a, inner)} = [np.hsplit(row, {inner}) for row in np.vsplit(a, {rows})]",
        f"{_unpacked(b, columns)} = [np.hsplit(row, {columns}) for row in np.vsplit(b, {inner})]",
        *straight_line(claim, "@"),
        f"return np.block([{blocks}]){end}",
    ]
    if prime:
        body.insert(1, f"# over {claim.field}: valid modulo {prime} only")
    name = f"multiply_{claim.format}"
    return "\n".join(["import numpy as np", "", "", f"def {name}(a, b):", *(f"    {line}" for line in body)]) + "\n"


def _complex_formulas(claim: Factorization, sign: str = "*", unit: str = "i") -> list[str]:
    """The formulas with complex coefficients written out, (1 + 2*i)*a11."""
    a, b, c = entry_names(claim)
    u, v, w = claim.tables
    m, divisor = _numbered("m", claim.rank), _divisor(claim)
    left, right = ([_complex_sum(row, names, unit) for row in table] for table, names in ((u, a), (v, b)))
    lines = [f"{name} = ({one}) {sign} ({other})" for name, one, other in zip(m, left, right, strict=True)]
    for name, column in zip(c, w.T, strict=True):
        total = _complex_sum(column, m, unit)
        lines.append(f"{name} = {total}" if divisor == 1 else f"{name} = ({total}) / {divisor}")
    return lines


def _complex_sum(values: NDArray[np.complex128], names: Sequence[str], unit: str) -> str:
    terms = [
        f"({int(value.real)} + {int(value.imag)}*{unit})*{name}" if value.imag else f"{int(value.real)}*{name}"
        for value, name in zip(values, names, strict=True)
        if value
    ]
    return " + ".join(terms) or "0"


def entry_names(claim: Factorization) -> tuple[list[str], list[str], list[str]]:
    """a11, a12, …; with an underscore between the indices if a side has two digits."""
    rows, inner, columns = claim.format.sides
    between = "_" if max(claim.format.sides) > 9 else ""

    def names(letter: str, high: int, wide: int) -> list[str]:
        return [f"{letter}{i + 1}{between}{j + 1}" for i in range(high) for j in range(wide)]

    return names("a", rows, inner), names("b", inner, columns), names("c", rows, columns)


def format_sum(terms: Iterable[Term], names: Sequence[str]) -> str:
    """a11 - 2 * a12; positive terms first, to avoid a leading sign."""
    text = ""
    for value, coefficient in sorted(terms, key=lambda term: term[1] < 0):
        size = names[value] if abs(coefficient) == 1 else f"{abs(coefficient)} * {names[value]}"
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {size}" if text else (f"-{size}" if coefficient < 0 else size)
    return text or "0"


def _named(program: Program, given: list[str], letter: str) -> tuple[list[str], list[str]]:
    names = [*given, *_numbered(letter, len(program.steps))]
    lines = [f"{names[program.inputs + k]} = {format_sum(pair, names)}" for k, pair in enumerate(program.steps)]
    return lines, names


def _products(
    left: Sequence[tuple[Term, ...]],
    right: Sequence[tuple[Term, ...]],
    left_names: Sequence[str],
    right_names: Sequence[str],
    sign: str,
) -> list[str]:
    return [
        f"m{k + 1} = {_bracketed(one, left_names)} {sign} {_bracketed(other, right_names)}"
        for k, (one, other) in enumerate(zip(left, right, strict=True))
    ]


def _entries(names: list[str], sums: Sequence[tuple[Term, ...]], given: Sequence[str], divisor: int) -> list[str]:
    if divisor == 1:
        return [f"{name} = {format_sum(terms, given)}" for name, terms in zip(names, sums, strict=True)]
    return [f"{name} = ({format_sum(terms, given)}) / {divisor}" for name, terms in zip(names, sums, strict=True)]


def _bracketed(terms: tuple[Term, ...], names: Sequence[str]) -> str:
    text = format_sum(terms, names)
    return text if text in names else f"({text})"


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{k + 1}" for k in range(count)]


def _divisor(claim: Factorization) -> int:
    return prod(claim.denominators)


def _split(names: list[str], wide: int) -> list[list[str]]:
    return [names[k : k + wide] for k in range(0, len(names), wide)]


def _unpacked(names: list[str], wide: int) -> str:
    """Target list of an assignment: (a11, a12), (a21, a22),"""
    rows = (f"({', '.join(row)}{',' if len(row) == 1 else ''})" for row in _split(names, wide))
    return "".join(f"{row}, " for row in rows)


SQUARE = 12  # pixels
GAP = 6  # pixels between u, v and w, and at the border
BACKGROUND = (24, 26, 30)
ZERO = (52, 56, 64)
PLUS = (247, 183, 51)
MINUS = (79, 148, 255)


def draw_factors(claim: Factorization, rows: int) -> NDArray[np.uint8]:
    """An image [height, width, 3] of the factors: a row for each multiplication; u, v and w side by side.

    `rows` is the minimum number of rows, so that the image does not grow during a search.
    """
    height = 2 * GAP + max(rows, claim.rank, 1) * SQUARE
    width = 4 * GAP + sum(claim.format.sizes) * SQUARE
    image = np.full((height, width, 3), BACKGROUND, np.uint8)
    left = GAP
    for factor, size in zip(claim.factors, claim.format.sizes, strict=True):
        image[GAP : GAP + claim.rank * SQUARE, left : left + size * SQUARE] = _squares(factor)
        left += size * SQUARE + GAP
    return image


def _squares(factor: Integers) -> NDArray[np.uint8]:
    """[rows, columns, 3] pixels; colours show the sign of a coefficient."""
    colours = np.array([MINUS, ZERO, PLUS], np.uint8)[np.sign(factor) + 1]  # [rank, size, 3]
    large: NDArray[np.uint8] = colours.repeat(SQUARE, axis=0).repeat(SQUARE, axis=1)
    large[SQUARE - 1 :: SQUARE] = large[:, SQUARE - 1 :: SQUARE] = BACKGROUND
    return large
