"""C for one scheme and one type of numbers: the sums of A's blocks, those of B's, and those of the products.

Each is one pass over memory: entry by entry all blocks are read, and all sums written. Whole numbers are computed
without a sign, where running over is defined and exact modulo 2^64.
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
# `in` and `out` are blocks: where each begins, and how many entries lie from one of its rows to the next.
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
    """Functions `left`, `right` and `product`; factors that are a single block are not copied."""
    wanted = (made_sums(programs.left), made_sums(programs.right), list(range(len(programs.product.outputs))))
    sides = (programs.left, programs.right, programs.product)
    names = ("left", "right", "product")
    return "".join(_function(*each) for each in zip(names, sides, wanted, strict=True))


def factor_order(program: Program) -> list[int]:
    """For each product: its factor's number among the given blocks, or behind them among the sums."""
    sums = {output: program.inputs + k for k, output in enumerate(made_sums(program))}
    return [sums.get(output, terms[0][0] if terms else 0) for output, terms in enumerate(program.outputs)]


def made_sums(program: Program) -> list[int]:
    """Outputs that are more than one of the inputs itself: only these take room and time."""
    return [k for k, terms in enumerate(program.outputs) if not is_input(terms, program.inputs)]


def is_input(terms: tuple[Term, ...], inputs: int) -> bool:
    return len(terms) == 1 and terms[0][1] == 1 and terms[0][0] < inputs


def _function(name: str, program: Program, wanted: list[int]) -> str:
    pointers = [f"    const T *x{k} = in[{k}].at + i * in[{k}].wide;" for k in range(program.inputs)]
    pointers += [f"    T *y{k} = out[{k}].at + i * out[{k}].wide;" for k in range(len(wanted))]
    body = [f"      const T v{k} = x{k}[j];" for k in range(program.inputs)]
    body += [f"      const T v{program.inputs + k} = {_expression(pair)};" for k, pair in enumerate(program.steps)]
    body += [f"      y{k}[j] = {_expression(program.outputs[output])};" for k, output in enumerate(wanted)]
    used = "".join(f"(void)x{k}; " for k in range(program.inputs))
    return FUNCTION.format(name=name, pointers="\n".join([*pointers, f"    {used}"]), body="\n".join(body))


def _expression(terms: tuple[Term, ...]) -> str:
    text = ""
    for value, times in sorted(terms, key=lambda term: term[1] < 0):
        size = f"v{value}" if abs(times) == 1 else f"{abs(times)} * v{value}"
        text += (" - " if times < 0 else " + ") + size if text else (f"-{size}" if times < 0 else size)
    return text or "0"
