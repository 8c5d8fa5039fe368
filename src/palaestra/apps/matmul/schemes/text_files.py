"""Scheme files as text: formulas, products of three sums, nested braces, Maple matrices and plain numbers.

| suffix | content |
|---|---|
| `.txt` | formulas `m1 = (a11 + a22) * (b11 + b22)`, `c11 = m1 + …`; or rows, inner, columns, rank, all numbers |
| `.exp` | one row in each line: `(a11 + a22)*(b11 + b22)*(c11 + c22)` |
| `.m` | nested braces `{{{matrix of u}, {matrix of v}, {matrix of w}}, …}` |
| `.mpl` | Maple: `Triad([Matrix(2, 2, [[…]]), Matrix(…), Matrix(…)])` for each row |

Formulas and `.exp` are one language, see `formula_files`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.schemes.coefficients import MAX_ROWS, claim_from_rows, format_number
from palaestra.apps.matmul.schemes.factorization import Factorization, Format
from palaestra.apps.matmul.schemes.formula_files import evaluate_number, read_formulas
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Matrix = list[list[Any]]

HEADER = re.compile(r"\s*(\d{1,2})\s+(\d{1,2})\s+(\d{1,2})\s+(\d{1,4})\s")
INTEGER = re.compile(r"-?(0|[1-9]\d{0,18})")
BRACES = str.maketrans("{}", "[]")
WORDS = re.compile(r"[^\s{}\[\],]+(?:[ \t]*[+\-*/][ \t]*[^\s{}\[\],]+)*")
MAPLE_LINE = r"\[[^\[\]]*\]"
MAPLE_MATRIX = re.compile(rf"Matrix\s*\(\s*\d+\s*,\s*\d+\s*,\s*\[\s*({MAPLE_LINE}(?:\s*,\s*{MAPLE_LINE})*)\s*\]\s*\)")
MAPLE_ROWS = re.compile(r"Triad\s*\(")


def read_text(text: str) -> Factorization:
    """Formulas, or numbers after a line of rows, inner, columns and rank."""
    return _read_numbers(text) if HEADER.match(text) else read_formulas(text)


def read_braces(text: str) -> Factorization:
    """Rows of three matrices as Mathematica writes them."""
    inner = text[text.find("{") : text.rfind("}") + 1]
    return _from_matrices(_nested(inner.translate(BRACES)))


def read_maple(text: str) -> Factorization:
    start = MAPLE_ROWS.search(text)
    if start is None:
        raise UsageError("The file has no rows.", "Expected Triad([Matrix(…), Matrix(…), Matrix(…)]) for each row.")
    matrices = [_maple_matrix(match.group(1)) for match in MAPLE_MATRIX.finditer(text, start.start())]
    if len(matrices) % 3:
        raise UsageError(f"The file has {len(matrices)} matrices.", "Expected three for each row.")
    return _from_matrices([matrices[at : at + 3] for at in range(0, len(matrices), 3)])


TEXT_READERS: dict[str, Callable[[str], Factorization]] = {
    ".txt": read_text,
    ".exp": read_formulas,
    ".m": read_braces,
    ".mpl": read_maple,
}


def _read_numbers(text: str) -> Factorization:
    words = text.split()
    rows, inner, columns, rank = map(int, words[:4])
    format_ = Format(rows, inner, columns)
    expected = 4 + rank * sum(format_.sizes)
    if len(words) != expected:
        raise UsageError(
            f"The file has {len(words):,} numbers.", f"Expected {expected:,} for {format_} with rank {rank}."
        )
    values = [int(word) if word.lstrip("+-").isdigit() and len(word) < 20 else word for word in words[4:]]
    tables, at = [], 0
    for size in format_.sizes:
        tables.append([values[at + row * size : at + (row + 1) * size] for row in range(rank)])
        at += rank * size
    return claim_from_rows(format_, tables)


def _maple_matrix(text: str) -> Matrix:
    return [[_maple_number(word.strip()) for word in line[1:-1].split(",")] for line in re.findall(MAPLE_LINE, text)]


@lru_cache(maxsize=1 << 12)
def _maple_number(word: str) -> int | str:
    """Entries are integers or arithmetic, such as -(1+1)*1/2."""
    if INTEGER.fullmatch(word):
        return int(word)
    return format_number(evaluate_number(word))


def _nested(text: str) -> Any:
    """Nested lists of coefficients, which become integers or text."""
    try:
        return json.loads(WORDS.sub(_quoted, text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The lists are damaged: {error}.", "Expected matrices of numbers.") from error


def _quoted(match: re.Match[str]) -> str:
    word = match.group()
    return word if INTEGER.fullmatch(word) else json.dumps(word)


def _from_matrices(rows: Any) -> Factorization:
    if not isinstance(rows, list) or not 0 < len(rows) <= MAX_ROWS or not all(map(_is_row, rows)):
        raise UsageError("The file is not a list of rows of three matrices.", "Expected {{u, v, w}, …} with matrices.")
    (high, inner), (_, wide) = (_shape(matrix) for matrix in rows[0][:2])
    format_ = Format(high, inner, wide)
    return claim_from_rows(format_, [[_flat(row[at]) for row in rows] for at in range(3)])


def _is_row(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 3 and all(map(_is_matrix, row))


def _is_matrix(matrix: Any) -> bool:
    return isinstance(matrix, list) and bool(matrix) and all(isinstance(line, list) and line for line in matrix)


def _shape(matrix: Matrix) -> tuple[int, int]:
    return len(matrix), len(matrix[0])


def _flat(matrix: Iterable[list[Any]]) -> list[Any]:
    return [value for line in matrix for value in line]
