"""A scheme to read and to copy: formulas line by line, and a Python function that multiplies blocks with it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.straight_line import naive_program, scheme_programs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from palaestra.apps.matmul.schemes.factorization import Factorization, Integers
    from palaestra.apps.matmul.schemes.straight_line import Program, Term


def formulas(claim: Factorization) -> list[str]:
    """m1 = (a11 + a22) * (b11 + b22), …, c11 = m1 + m4 - m5 + m7, …"""
    left, right, product = (naive_program(table) for table in (claim.u, claim.v, claim.w.T))
    a, b, c = entry_names(claim)
    lines = _products(left.outputs, right.outputs, a, b, "*")
    return lines + _entries(c, product.outputs, _numbered("m", claim.rank), _divisor(claim))


def straight_line(claim: Factorization, sign: str = "*") -> list[str]:
    """The same with each recurring sum made once: what the counted additions are."""
    programs = scheme_programs(claim)
    a, b, c = entry_names(claim)
    lines, left = _named(programs.left, a, "s")
    more, right = _named(programs.right, b, "t")
    lines += more
    lines += _products(programs.left.outputs, programs.right.outputs, left, right, sign)
    last, known = _named(programs.product, _numbered("m", claim.rank), "p")
    return lines + last + _entries(c, programs.product.outputs, known, _divisor(claim))


def python_code(claim: Factorization) -> str:
    """A function of two NumPy arrays whose sides the format's sides divide."""
    rows, inner, columns = claim.format.sides
    a, b, c = entry_names(claim)
    about = f"Blocks of a ({rows} x {inner}) times blocks of b ({inner} x {columns})"
    end = " % 2" if claim.field is Field.GF2 else ""
    blocks = ", ".join(f"[{', '.join(row)}]" for row in _split(c, columns))
    body = [
        f'"""{about}, with {claim.rank} multiplications instead of {claim.format.naive_rank}."""',
        f"{_unpacked(a, inner)} = [np.hsplit(row, {inner}) for row in np.vsplit(a, {rows})]",
        f"{_unpacked(b, columns)} = [np.hsplit(row, {columns}) for row in np.vsplit(b, {inner})]",
        *straight_line(claim, "@"),
        f"return np.block([{blocks}]){end}",
    ]
    if claim.field is Field.GF2:
        body.insert(1, "# over gf2: right for 0 and 1, and 1 + 1 = 0; wrong for other numbers")
    name = f"multiply_{claim.format}"
    return "\n".join(["import numpy as np", "", "", f"def {name}(a, b):", *(f"    {line}" for line in body)]) + "\n"


def entry_names(claim: Factorization) -> tuple[list[str], list[str], list[str]]:
    """a11, a12, …; with a line between the numbers where a side has two digits."""
    rows, inner, columns = claim.format.sides
    between = "_" if max(claim.format.sides) > 9 else ""

    def names(letter: str, high: int, wide: int) -> list[str]:
        return [f"{letter}{i + 1}{between}{j + 1}" for i in range(high) for j in range(wide)]

    return names("a", rows, inner), names("b", inner, columns), names("c", rows, columns)


def format_sum(terms: Iterable[Term], names: Sequence[str]) -> str:
    """a11 - 2 * a12; what is added first stands first, so that it begins without a sign where it can."""
    text = ""
    for value, times in sorted(terms, key=lambda term: term[1] < 0):
        size = names[value] if abs(times) == 1 else f"{abs(times)} * {names[value]}"
        sign = "-" if times < 0 else "+"
        text += f" {sign} {size}" if text else (f"-{size}" if times < 0 else size)
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
    """(a11, a12), (a21, a22); a comma after a single one makes it a tuple all the same."""
    rows = (f"({', '.join(row)}{',' if len(row) == 1 else ''})" for row in _split(names, wide))
    return "".join(f"{row}, " for row in rows)


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
