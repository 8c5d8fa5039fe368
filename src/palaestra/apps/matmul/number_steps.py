"""A program of additions as Python runs it: each step one addition or subtraction of two known values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import add, sub
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.apps.matmul.straight_line import Program, Term

Operation = Callable[[int, int], int]
Step = tuple[Operation, int, int]  # what to do, with which two of the values before


@dataclass(frozen=True)
class NumberSteps:
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def of_numbers(self, given: list[int]) -> list[int]:
        known = list(given)
        for operation, first, second in self.steps:
            known.append(operation(known[first], known[second]))
        return [known[value] for value in self.outputs]

    def of_lists(self, given: list[list[int]]) -> list[list[int]]:
        """The same for many at once: number k of each list with number k of the others."""
        known = list(given)
        for operation, first, second in self.steps:
            known.append(list(map(operation, known[first], known[second])))
        return [known[value] for value in self.outputs]


def number_steps(program: Program) -> NumberSteps:
    steps = [_step(*pair) for pair in program.steps]
    outputs = [_one_value(terms, steps, program.inputs) for terms in program.outputs]
    return NumberSteps(tuple(steps), tuple(outputs))


def _one_value(terms: tuple[Term, ...], steps: list[Step], inputs: int) -> int:
    """Sums begin with what is added as it is, so that nothing has to be negated."""
    if not terms:
        steps.append((sub, 0, 0))
        return inputs + len(steps) - 1
    first, *others = sorted(terms, key=lambda term: term[1] != 1)
    if not others and first[1] == 1:
        return first[0]
    if not others:
        steps.append(_step(first, (first[0], 0)))
    for term in others:
        steps.append(_step(first, term))
        first = (inputs + len(steps) - 1, 1)
    return inputs + len(steps) - 1


def _step(one: Term, other: Term) -> Step:
    (first, times), (second, more) = one, other
    if (times, more) == (1, 1):
        return add, first, second
    if (times, more) == (1, -1):
        return sub, first, second
    if (times, more) == (-1, 1):
        return sub, second, first
    return partial(_weighted, times, more), first, second


def _weighted(times: int, more: int, first: int, second: int) -> int:
    return times * first + more * second
