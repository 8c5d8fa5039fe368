"""C for one scheme and one type of numbers: the sums of A's blocks, those of B's, and those of the products.

Each is one pass over memory: entry by entry all blocks are read, and all sums written. Whole numbers are computed
without a sign, where running over is defined and exact modulo 2^64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.apps.matmul.straight_line import Program, SchemePrograms, Term

C_TYPES = {"float32": "float", "float64": "double", "int64": "uint64_t"}
HEAD = """#include <stddef.h>
#include <stdint.h>
typedef {type} T;
"""
# `in` and `out` are matrices of blocks, or planes of one block each: where block k begins is in `from` and `to`.
FUNCTION = """
void {name}(const T *in, ptrdiff_t in_wide, const ptrdiff_t *from, T *out, ptrdiff_t out_wide, const ptrdiff_t *to,
            ptrdiff_t rows, ptrdiff_t columns, int threads) {{
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
    """Functions `left`, `right` and `product`; factors that are a single block are not copied."""
    parts = [HEAD.format(type=C_TYPES[dtype])]
    parts.append(_function("left", programs.left, made_sums(programs.left)))
    parts.append(_function("right", programs.right, made_sums(programs.right)))
    parts.append(_function("product", programs.product, list(range(len(programs.product.outputs)))))
    return "".join(parts)


def made_sums(program: Program) -> list[int]:
    """Outputs that are more than one of the inputs itself: only these take room and time."""
    return [k for k, terms in enumerate(program.outputs) if not is_input(terms, program.inputs)]


def is_input(terms: tuple[Term, ...], inputs: int) -> bool:
    return len(terms) == 1 and terms[0][1] == 1 and terms[0][0] < inputs


def _function(name: str, program: Program, wanted: list[int]) -> str:
    pointers = [f"    const T *x{k} = in + from[{k}] + i * in_wide;" for k in range(program.inputs)]
    pointers += [f"    T *y{k} = out + to[{k}] + i * out_wide;" for k in range(len(wanted))]
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
