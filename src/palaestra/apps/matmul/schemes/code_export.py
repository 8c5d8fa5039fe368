"""A scheme as code that needs nothing of Palaestra: Python for NumPy or PyTorch, and a C++ header, each with a test.

The code consists of the straight-line formulas on blocks of the matrices, with recursion over levels; a matrix that the
format does not divide is multiplied as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.apps.matmul.schemes.formulas import entry_names, straight_line
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization

LIBRARIES = {"numpy": "np.block([{blocks}])", "torch": "torch.cat([{rows}])"}
DRAWS = {
    "numpy": "(np.random.default_rng({seed}).integers(-99, 99, shape) for shape in ({left}, {right}))",
    "torch": "(torch.randint(-99, 99, shape).double() for shape in ({left}, {right}))",
}
IMPORTS = {"numpy": "import numpy as np", "torch": "import torch"}

PYTHON = '''"""{title}"""

{imports}

FORMAT = ({rows}, {inner}, {columns})  # rows and columns of a, columns of b, in blocks


def multiply(a, b, levels=1):
    """a @ b{modulo}, with {rank} products of blocks instead of {naive} on each of the levels."""
    if levels == 0 or any(size % blocks for size, blocks in zip((*a.shape, b.shape[1]), FORMAT)):
        return {plain}
    high, wide, deep = (size // blocks for size, blocks in zip((*a.shape, b.shape[1]), FORMAT))

    def times(x, y):
        return multiply(x, y, levels - 1)

{body}
    return {result}
'''

PYTHON_TEST = '''"""Integer products of multiply are compared with those of the definition, entry by entry."""

{imports}

from {module} import FORMAT, multiply


def test_products_are_exact():
    for seed, (scale, levels) in enumerate([(1, 1), (3, 1), (2, 2), (1, 0)]):
        sides = [side ** max(levels, 1) * scale for side in FORMAT]
        a, b = {draw}
        assert not ((multiply(a, b, levels) - a @ b){remainder}).any(), (sides, levels)


def test_other_sizes_are_multiplied_as_usual():
    a, b = {odd}
    assert not ((multiply(a, b) - a @ b){remainder}).any()


if __name__ == "__main__":
    test_products_are_exact()
    test_other_sizes_are_multiplied_as_usual()
    print("all products are exact")
'''

HEADER = """// {title}
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace {name} {{

template <class T>
struct Matrix {{
    std::size_t rows, columns;
    std::vector<T> entries;  // row-major

    Matrix(std::size_t high, std::size_t wide) : rows(high), columns(wide), entries(high * wide) {{}}
    T& operator()(std::size_t i, std::size_t j) {{ return entries[i * columns + j]; }}
    const T& operator()(std::size_t i, std::size_t j) const {{ return entries[i * columns + j]; }}
    Matrix block(std::size_t top, std::size_t left, std::size_t high, std::size_t wide) const {{
        Matrix part(high, wide);
        for (std::size_t i = 0; i < high; ++i)
            for (std::size_t j = 0; j < wide; ++j) part(i, j) = (*this)(top + i, left + j);
        return part;
    }}
    void put(std::size_t top, std::size_t left, const Matrix& part) {{
        for (std::size_t i = 0; i < part.rows; ++i)
            for (std::size_t j = 0; j < part.columns; ++j) (*this)(top + i, left + j) = part(i, j);
    }}
    template <class Change>
    Matrix changed(const Change& change) const {{
        Matrix result(rows, columns);
        for (std::size_t k = 0; k < entries.size(); ++k) result.entries[k] = change(k);
        return result;
    }}
    Matrix operator+(const Matrix& other) const {{
        return changed([&](std::size_t k) {{ return entries[k] + other.entries[k]; }});
    }}
    Matrix operator-(const Matrix& other) const {{
        return changed([&](std::size_t k) {{ return entries[k] - other.entries[k]; }});
    }}
    Matrix operator-() const {{
        return changed([&](std::size_t k) {{ return -entries[k]; }});
    }}
    Matrix operator/(int divisor) const {{
        return changed([&](std::size_t k) {{ return entries[k] / T(divisor); }});
    }}
    friend Matrix operator*(int factor, const Matrix& matrix) {{
        return matrix.changed([&](std::size_t k) {{ return T(factor) * matrix.entries[k]; }});
    }}
}};

template <class T>
Matrix<T> plain_product(const Matrix<T>& a, const Matrix<T>& b) {{
    Matrix<T> c(a.rows, b.columns);
    for (std::size_t i = 0; i < a.rows; ++i)
        for (std::size_t k = 0; k < a.columns; ++k)
            for (std::size_t j = 0; j < b.columns; ++j) c(i, j) = c(i, j) + a(i, k) * b(k, j);
    return c;
}}

// a * b{modulo}, with {rank} products of blocks instead of {naive} on each of the levels.
template <class T>
Matrix<T> multiply(const Matrix<T>& a, const Matrix<T>& b, int levels = 1) {{
    if (levels == 0 || a.rows % {rows} || a.columns % {inner} || b.columns % {columns}) return plain_product(a, b);
    const std::size_t high = a.rows / {rows}, wide = a.columns / {inner}, deep = b.columns / {columns};
    const auto times = [levels](const Matrix<T>& x, const Matrix<T>& y) {{ return multiply(x, y, levels - 1); }};
{body}
    Matrix<T> c(a.rows, b.columns);
{result}
    return c;
}}

}}  // namespace {name}
"""

HEADER_TEST = """// Integer products of multiply are compared with those of the definition, entry by entry.
#include <cstdint>
#include <cstdio>

#include "{file}"

int main() {{
    std::uint64_t state = 1;
    const auto draw = [&] {{
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<std::int64_t>(state >> 33) % 1000 - 500;
    }};
    const int sizes[][4] = {{{{1, 1, 1, 1}}, {{3, 2, 1, 1}}, {{{rows}, {inner}, {columns}, 2}}, {{1, 1, 1, 0}}}};
    for (const auto& size : sizes) {{
        {name}::Matrix<std::int64_t> a({rows} * size[0], {inner} * size[1]), b({inner} * size[1], {columns} * size[2]);
        for (auto& entry : a.entries) entry = draw();
        for (auto& entry : b.entries) entry = draw();
        const auto wrong = {name}::multiply(a, b, size[3]) - {name}::plain_product(a, b);
        for (const std::int64_t entry : wrong.entries)
            if (entry{remainder} != 0) return std::puts("a product is wrong"), 1;
    }}
    std::puts("all products are exact");
}}
"""


def python_module(claim: Factorization, library: str = "numpy") -> str:
    """A module with `multiply(a, b, levels)` for arrays or tensors."""
    _check(claim)
    if library not in LIBRARIES:
        raise UsageError(f"No library named '{library}'.", f"Known: {', '.join(LIBRARIES)}.")
    _, inner, columns = claim.format.sides
    a, b, c = entry_names(claim)
    body = [f"{name} = a[{_slice(at, inner, 'high', 'wide')}]" for at, name in enumerate(a)]
    body += [f"{name} = b[{_slice(at, columns, 'wide', 'deep')}]" for at, name in enumerate(b)]
    body += _with_calls(claim)
    prime = claim.field.characteristic
    grid = [c[at : at + columns] for at in range(0, len(c), columns)]
    blocks = ", ".join(f"[{', '.join(line)}]" for line in grid)
    joined = ", ".join(f"torch.cat([{', '.join(line)}], 1)" for line in grid)
    result = LIBRARIES[library].format(blocks=blocks, rows=joined)
    return PYTHON.format(
        **_facts(claim),
        imports=IMPORTS[library],
        plain=f"a @ b % {prime}" if prime else "a @ b",
        body="\n".join(f"    {line}" for line in body),
        result=f"{result} % {prime}" if prime else result,
    )


def python_test(claim: Factorization, module: str, library: str = "numpy") -> str:
    rows, inner, columns = claim.format.sides
    prime = claim.field.characteristic
    draw = DRAWS[library]
    return PYTHON_TEST.format(
        imports=IMPORTS[library],
        module=module,
        draw=draw.format(seed="seed", left="sides[:2]", right="sides[1:]"),
        odd=draw.format(seed=9, left=f"({rows + 1}, {inner + 1})", right=f"({inner + 1}, {columns + 1})"),
        remainder=f" % {prime}" if prime else "",
    )


def cpp_header(claim: Factorization) -> str:
    """A header with `multiply(a, b, levels)` for matrices of any type of numbers."""
    _check(claim)
    _, inner, columns = claim.format.sides
    a, b, c = entry_names(claim)
    body = [
        f"const auto {name} = a.block({_corner(at, inner, 'high', 'wide')}, high, wide);" for at, name in enumerate(a)
    ]
    body += [
        f"const auto {name} = b.block({_corner(at, columns, 'wide', 'deep')}, wide, deep);" for at, name in enumerate(b)
    ]
    body += [f"const auto {line};" for line in _with_calls(claim)]
    result = [f"c.put({_corner(at, columns, 'high', 'deep')}, {name});" for at, name in enumerate(c)]
    return HEADER.format(
        **_facts(claim),
        name=_name(claim),
        body="\n".join(f"    {line}" for line in body),
        result="\n".join(f"    {line}" for line in result),
    )


def cpp_test(claim: Factorization, file: str) -> str:
    prime = claim.field.characteristic
    rows, inner, columns = claim.format.sides
    facts = {"rows": rows, "inner": inner, "columns": columns}
    return HEADER_TEST.format(file=file, name=_name(claim), remainder=f" % {prime}" if prime else "", **facts)


def _check(claim: Factorization) -> None:
    if claim.field.is_complex:
        raise UsageError(f"A scheme over {claim.field} cannot be exported as code.", "Only real fields are supported.")


def _facts(claim: Factorization) -> dict[str, object]:
    rows, inner, columns = claim.format.sides
    prime = claim.field.characteristic
    return {
        "title": f"Matrix multiplication {claim.format} with {claim.rank} products ({claim.field.meaning}).",
        "rows": rows,
        "inner": inner,
        "columns": columns,
        "rank": claim.rank,
        "naive": claim.format.naive_rank,
        "modulo": f" modulo {prime}" if prime else "",
    }


def _with_calls(claim: Factorization) -> list[str]:
    """The straight-line formulas, with products as calls of `times`."""
    lines = []
    for line in straight_line(claim, PRODUCT):
        name, _, formula = line.partition(" = ")
        left, product, right = formula.partition(f" {PRODUCT} ")
        lines.append(f"{name} = times({left}, {right})" if product else line)
    return lines


PRODUCT = "@"


def _name(claim: Factorization) -> str:
    return f"matmul_{claim.format}_{claim.rank}"


def _slice(at: int, wide: int, row: str, column: str) -> str:
    i, j = divmod(at, wide)
    return f"{i} * {row} : {i + 1} * {row}, {j} * {column} : {j + 1} * {column}"


def _corner(at: int, wide: int, row: str, column: str) -> str:
    i, j = divmod(at, wide)
    return f"{i} * {row}, {j} * {column}"
