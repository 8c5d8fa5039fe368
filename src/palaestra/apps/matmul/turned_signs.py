"""Signs where they cost nothing: a factor that is a block with a minus would be a copy of it.

The product then has the other sign, which the sums behind it set right: they subtract it where they added it.
"""

from __future__ import annotations

from palaestra.apps.matmul.straight_line import Program, SchemePrograms, Term


def without_negated_factors(programs: SchemePrograms) -> SchemePrograms:
    left, right = _negated(programs.left), _negated(programs.right)
    turned, product = left ^ right, programs.product
    steps = tuple((_turned(one, turned), _turned(other, turned)) for one, other in product.steps)
    outputs = tuple(tuple(_turned(term, turned) for term in terms) for terms in product.outputs)
    return SchemePrograms(
        _with_turned_outputs(programs.left, left),
        _with_turned_outputs(programs.right, right),
        Program(product.inputs, steps, outputs),
    )


def _negated(program: Program) -> set[int]:
    """Outputs that are one value times -1."""
    return {k for k, terms in enumerate(program.outputs) if len(terms) == 1 and terms[0][1] == -1}


def _with_turned_outputs(program: Program, which: set[int]) -> Program:
    outputs = tuple(
        tuple((value, -times) for value, times in terms) if output in which else terms
        for output, terms in enumerate(program.outputs)
    )
    return Program(program.inputs, program.steps, outputs)


def _turned(term: Term, products: set[int]) -> Term:
    value, times = term
    return (value, -times) if value in products else term
