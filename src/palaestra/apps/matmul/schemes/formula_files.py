"""Formulas of a scheme as text: sums, products of two sums, and products of three.

    m1 = (a11 + a22) * (b11 + b22)   the sign may be missing: a11 b11
    c11 = m1 + m4 - m5 + m7
    s1 = a11 - 1/2*a12            a name for a sum, as in straight-line programs
    (a12 - a22)*(b21 + b22)*c11   a whole row: where c11 stands, w is 1

Names of entries are a12, a1_12, a_1_12 or a[1,12]; with sides above 9 the ones with a separator are never ambiguous.
Lines that start with # are skipped. The format follows from the names, since all entries occur.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from palaestra.apps.matmul.schemes.coefficients import MAX_ROWS, claim_from_rows, format_number
from palaestra.apps.matmul.schemes.factorization import LARGEST_SIDE, Factorization, Format
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH = 20  # of parentheses
MAX_TERMS = 1 << 19  # of all sums together; a 16x16x16 has about 100,000
MAX_EXPONENT = 4
MAX_BITS = 64  # of a coefficient
TOKEN = re.compile(r"\s*(?:(\d{1,20}(?:\.\d{1,20})?)|([A-Za-z]\w*(?:\[\d+,\s*\d+\])?)|(\*\*|[-+*/@=()]))")
ENTRY = re.compile(r"([abcABC])(?:_?(\d{1,2})_(\d{1,2})|\[(\d{1,2}),\s*(\d{1,2})\]|(\d{2,4}))")
UNITS = ("i", "I")

Number = tuple[int | Fraction, int | Fraction]  # real and imaginary part
Symbol = tuple[str, "tuple[int, int] | str | int"]  # a, b or c with its indices; m with the row
Sum = dict[Symbol, Number]
ONE: Symbol = ("1", 0)  # the constant term
ROW = "m"


def read_formulas(text: str) -> Factorization:
    """The scheme of a file of formulas, over q or qi."""
    program = _Program()
    for number, line in enumerate(text.splitlines(), 1):
        content = line.split("#")[0].strip().rstrip(";,")
        if content:
            try:
                program.read(content)
            except UsageError as error:
                raise UsageError(f"Line {number}: {error.message}", error.hint) from error
    return program.factorization()


def evaluate_number(text: str) -> Number:
    """The value of arithmetic such as -(1 + 1)*1/2."""
    value = _Parser(_tokens(text), _Program()).whole(three=False)
    if not set(value) <= {ONE}:
        raise UsageError(f"Not a number: '{text[:40]}'.")
    return value.get(ONE, (0, 0))


@dataclass
class _Program:
    """Sums and rows so far; a product of two sums becomes a row."""

    names: dict[str, Sum] = field(default_factory=dict)
    rows: list[list[Sum]] = field(default_factory=list)  # two sums; three for rows with an explicit w
    outputs: list[tuple[Symbol, Sum]] = field(default_factory=list)
    terms: int = 0

    def read(self, line: str) -> None:
        name, equals, formula = line.partition("=")
        parser = _Parser(_tokens(formula if equals else line), self)
        value = parser.whole(three=not equals)
        if not equals:
            return
        entry = _entry(name.strip())
        if entry is not None and entry[0] == "c":
            self.outputs.append((entry, value))
        else:
            self.names[name.strip()] = value

    def count(self, value: Sum) -> Sum:
        self.terms += len(value)
        if self.terms > MAX_TERMS:
            raise UsageError("The formulas have too many terms.", f"At most {MAX_TERMS:,} are read.")
        return value

    def add_row(self, factors: list[Sum]) -> Sum:
        if len(self.rows) >= MAX_ROWS:
            raise UsageError("The formulas have too many products.", f"At most {MAX_ROWS:,} are read.")
        self.rows.append(sorted(factors, key=_letter_of))
        return {(ROW, len(self.rows) - 1): (1, 0)}

    def factorization(self) -> Factorization:
        """The tables; `outputs` give w, or the third sums of the rows do."""
        thirds = [dict(row[2]) if len(row) == 3 else {} for row in self.rows]
        for entry, value in self.outputs:
            for symbol, coefficient in value.items():
                if symbol[0] != ROW:
                    raise UsageError(f"An entry of c contains {symbol[0]} itself.", "Use products only.")
                thirds[_row_of(symbol)][entry] = coefficient
        tables = [[row[0] for row in self.rows], [row[1] for row in self.rows], thirds]
        format_, indices = _find_format(tables)
        return claim_from_rows(format_, [_dense(table, index) for table, index in zip(tables, indices, strict=True)])


class _Parser:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, tokens: list[str], program: _Program) -> None:
        self._tokens = tokens
        self._at = 0
        self._program = program
        self._depth = 0

    def whole(self, *, three: bool) -> Sum:
        """The formula; `three`: it is a product of three sums, a row with its w."""
        value = self._product(3) if three else self._sum()
        if self._at != len(self._tokens):
            raise UsageError(f"Unexpected '{self._tokens[self._at]}'.", "Expected + - * / or the end of the line.")
        return value

    def _sum(self) -> Sum:
        total: Sum = {}
        sign = -1 if self._accept("-") else 1
        if sign > 0:
            self._accept("+")
        while True:
            for symbol, coefficient in self._product(2).items():
                _add_term(total, symbol, _times(coefficient, (sign, 0)))
            if self._accept("+"):
                sign = 1
            elif self._accept("-"):
                sign = -1
            else:
                return self._program.count(total)

    def _product(self, sums: int) -> Sum:
        """A product of numbers and at most `sums` sums; two or three sums become a row."""
        scale: Number = (1, 0)
        found: list[Sum] = []
        divides = False
        while True:
            while self._accept("-"):
                scale = _times(scale, (-1, 0))
            value = self._power()
            if set(value) <= {ONE}:
                constant = value.get(ONE, (0, 0))
                scale = _times(scale, _inverse(constant) if divides else constant)
            elif divides:
                raise UsageError("Division by a sum.", "Only numbers can be divisors.")
            else:
                found.append(value)
            divides = self._accept("/")
            if not divides and not self._accept("*") and not self._accept("@") and not self._starts_factor():
                return self._finish(found, scale, sums)

    def _finish(self, found: list[Sum], scale: Number, sums: int) -> Sum:
        if sums == 3 and len(found) != 3:
            raise UsageError(
                f"A row with {len(found)} sums.", "Expected NAME = …, or (sum of a)*(sum of b)*(sum of c)."
            )
        if not found:
            return {ONE: scale}
        if len(found) > sums:
            raise UsageError(f"A product of {len(found)} sums.", "At most two sums can be multiplied.")
        value = found[0] if len(found) == 1 else self._program.add_row([_scaled(found[0], scale), *found[1:]])
        return _scaled(value, scale) if len(found) == 1 else value

    def _power(self) -> Sum:
        value = self._factor()
        if self._accept("**"):
            exponent = self._factor().get(ONE, (-1, 0))[0]
            if exponent not in range(MAX_EXPONENT + 1) or not set(value) <= {ONE}:
                raise UsageError("Only numbers can be raised to a power.", f"The power is at most {MAX_EXPONENT}.")
            constant = value.get(ONE, (0, 0))
            total: Number = (1, 0)
            for _ in range(int(exponent)):
                total = _times(total, constant)
            return {ONE: total}
        return value

    def _factor(self) -> Sum:
        if self._at == len(self._tokens):
            raise UsageError("The formula ends too early.", "Expected a name, a number or a parenthesis.")
        word = self._tokens[self._at]
        self._at += 1
        if word == "(":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise UsageError("Too many nested parentheses.", f"At most {MAX_DEPTH} are read.")
            value = self._sum()
            if not self._accept(")"):
                raise UsageError("A parenthesis is not closed.")
            self._depth -= 1
            return value
        if word[0].isdigit():
            return {ONE: (int(word) if word.isdigit() else Fraction(word), 0)}
        if word in self._program.names:
            return self._program.names[word]
        if word in UNITS:
            return {ONE: (0, 1)}
        entry = _entry(word)
        if entry is None:
            raise UsageError(f"Unknown name: '{word}'.", "Names are defined by NAME = …, or are entries such as a12.")
        return {entry: (1, 0)}

    def _starts_factor(self) -> bool:
        """Factors may follow each other without a sign: a11 b11, 2 a11, (…) (…)."""
        return self._at < len(self._tokens) and (self._tokens[self._at] == "(" or self._tokens[self._at][0].isalnum())

    def _accept(self, token: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == token:
            self._at += 1
            return True
        return False


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise UsageError(f"Unexpected '{text[at : at + 20].strip()}'.", "Expected a formula.")
        found.append(next(word for word in match.groups() if word is not None))
        at = match.end()
    return found


def _entry(name: str) -> Symbol | None:
    match = ENTRY.fullmatch(name)
    if match is None:
        return None
    letter, row, column, other_row, other_column, digits = match.groups()
    if digits:
        return letter.lower(), (int(digits[0]), int(digits[1])) if len(digits) == 2 else digits
    return letter.lower(), (int(row or other_row), int(column or other_column))


def _letter_of(value: Sum) -> str:
    letters = {symbol[0] for symbol in value}
    if len(letters) != 1 or not letters <= set("abc"):
        raise UsageError(
            "A product has a factor that is no sum of entries of one matrix.", "Expected (sum of a) * (sum of b)."
        )
    return letters.pop()


def _row_of(symbol: Symbol) -> int:
    row = symbol[1]
    assert isinstance(row, int)  # symbols of rows have the index of the row
    return row


def _add_term(total: Sum, symbol: Symbol, coefficient: Number) -> None:
    real, imaginary = total.get(symbol, (0, 0))
    both = (real + coefficient[0], imaginary + coefficient[1])
    if any(max(abs(part.numerator), part.denominator).bit_length() > MAX_BITS for part in both):
        raise UsageError("A coefficient is too large.", "Is the file damaged?")
    total[symbol] = both
    if not any(both):
        del total[symbol]


def _scaled(value: Sum, scale: Number) -> Sum:
    scaled: Sum = {}
    for symbol, coefficient in value.items():
        _add_term(scaled, symbol, _times(coefficient, scale))
    return scaled


def _times(one: Number, other: Number) -> Number:
    return one[0] * other[0] - one[1] * other[1], one[0] * other[1] + one[1] * other[0]


def _inverse(number: Number) -> Number:
    size = number[0] ** 2 + number[1] ** 2
    if not size:
        raise UsageError("Division by zero.")
    return Fraction(number[0]) / size, Fraction(-number[1]) / size


Indices = dict[Symbol, int]  # symbol -> column of the table


def _find_format(tables: list[list[Sum]]) -> tuple[Format, list[Indices]]:
    """The sides whose entries are exactly the names used; c may be transposed."""
    used = [set().union(*table) if table else set() for table in tables]
    for rows, inner in product(range(1, LARGEST_SIDE + 1), repeat=2):
        left = _indices("a", rows, inner, used[0])
        if left is None:
            continue
        for columns in range(1, LARGEST_SIDE + 1):
            right = _indices("b", inner, columns, used[1])
            if right is not None:
                third = _indices("c", rows, columns, used[2]) or _indices("c", columns, rows, used[2])
                if third is not None:
                    return Format(rows, inner, columns), [left, right, third]
    counts = ", ".join(f"{len(names)} of {letter}" for names, letter in zip(used, "abc", strict=True))
    raise UsageError(
        f"The names ({counts}) are not those of the entries of a matrix product.",
        "All entries must occur; above 9 write a1_11, since a111 can be two entries.",
    )


def _indices(letter: str, high: int, wide: int, used: Iterable[Symbol]) -> Indices | None:
    """The column of each name if the names used are exactly the entries of a high x wide matrix."""
    used = set(used)
    if len(used) != high * wide:
        return None
    spelled: defaultdict[Symbol, list[int]] = defaultdict(list)
    for i, j in product(range(high), range(wide)):
        spelled[letter, (i + 1, j + 1)].append(i * wide + j)
        if max(i, j) > 8:
            spelled[letter, f"{i + 1}{j + 1}"].append(i * wide + j)
    places = {symbol: spelled.get(symbol, []) for symbol in used}
    if any(len(columns) != 1 for columns in places.values()):
        return None
    found = {symbol: columns[0] for symbol, columns in places.items()}
    return found if len(set(found.values())) == high * wide else None


def _dense(table: list[Sum], indices: Indices) -> list[list[str | int]]:
    rows: list[list[str | int]] = []
    for value in table:
        row: list[str | int] = [0] * len(indices)
        for symbol, (real, imaginary) in value.items():
            is_whole = not imaginary and real.denominator == 1
            row[indices[symbol]] = int(real) if is_whole else format_number((real, imaginary))
        rows.append(row)
    return rows
