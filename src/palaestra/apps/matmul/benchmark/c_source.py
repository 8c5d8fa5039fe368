"""Generates C for a scheme and a dtype: functions for the sums of A's blocks, of B's blocks and of the products.

Each function is one pass over memory that reads all blocks and writes all sums, entry by entry. Integers are unsigned,
so that overflow is defined and exact modulo 2^64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.straight_line import Program, SchemePrograms, Term

C_TYPES = {"float32": "float", "float64": "double", "int64": "uint64_t"}
HEAD = """#include <stddef.h>
#include <stdint.h>
typedef {type} T;
typedef struct {{ T *at; ptrdiff_t wide; }} Matrix;
"""
# `in` and `out` are arrays of blocks: the address of each, and its row stride in entries.
FUNCTION = """
void {name}(const Matrix *in, const Matrix *out, ptrdiff_t rows, ptrdiff_t columns, int threads) {{
  (void)threads;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
  for (ptrdiff_t i = 0; i < rows; ++i) {{
{pointers}
#pragma GCC ivdep
    for (ptrdiff_t j = 0; j < columns; ++j) {{
{body}
    }}
  }}
}}
"""


def scheme_source(programs: SchemePrograms, dtype: str) -> str:
    return HEAD.format(type=C_TYPES[dtype]) + sums_source(programs)


def sums_source(programs: SchemePrograms) -> str:
    """The functions `left`, `right` and `product`; factors that are a single block are not copied."""
    outputs = (
        computed_outputs(programs.left),
        computed_outputs(programs.right),
        list(range(len(programs.product.outputs))),
    )
    sides = (programs.left, programs.right, programs.product)
    names = ("left", "right", "product")
    return "".join(_function(*each) for each in zip(names, sides, outputs, strict=True))


def factor_order(program: Program) -> list[int]:
    """For each product the index of its factor among the input blocks followed by the sums."""
    sums = {output: program.inputs + k for k, output in enumerate(computed_outputs(program))}
    return [sums.get(output, terms[0][0] if terms else 0) for output, terms in enumerate(program.outputs)]


def computed_outputs(program: Program) -> list[int]:
    """Indices of the outputs that are not simply an input; only these are computed and stored."""
    return [k for k, terms in enumerate(program.outputs) if not is_input(terms, program.inputs)]


def is_input(terms: tuple[Term, ...], inputs: int) -> bool:
    return len(terms) == 1 and terms[0][1] == 1 and terms[0][0] < inputs


def _function(name: str, program: Program, outputs: list[int]) -> str:
    pointers = [f"    const T *x{k} = in[{k}].at + i * in[{k}].wide;" for k in range(program.inputs)]
    pointers += [f"    T *y{k} = out[{k}].at + i * out[{k}].wide;" for k in range(len(outputs))]
    body = [f"      const T v{k} = x{k}[j];" for k in range(program.inputs)]
    body += [f"      const T v{program.inputs + k} = {_expression(pair)};" for k, pair in enumerate(program.steps)]
    body += [f"      y{k}[j] = {_expression(program.outputs[output])};" for k, output in enumerate(outputs)]
    used = "".join(f"(void)x{k}; " for k in range(program.inputs))
    return FUNCTION.format(name=name, pointers="\n".join([*pointers, f"    {used}"]), body="\n".join(body))


def _expression(terms: tuple[Term, ...]) -> str:
    text = ""
    for value, times in sorted(terms, key=lambda term: term[1] < 0):
        size = f"v{value}" if abs(times) == 1 else f"{abs(times)} * v{value}"
        text += (" - " if times < 0 else " + ") + size if text else (f"-{size}" if times < 0 else size)
    return text or "0"
