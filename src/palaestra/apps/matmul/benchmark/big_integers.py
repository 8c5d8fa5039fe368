"""Executes a scheme on matrices of Python integers of any length.

Entries are stored in one list in recursive block order, so that a block is a slice; the last level works on scalars.
Products are computed one after the other, depth first, to stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import add, mul, sub
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.benchmark.executor import CSE_TRIES, check_field
from palaestra.apps.matmul.schemes.straight_line import scheme_programs, without_negated_factors

if TYPE_CHECKING:
    from palaestra.apps.matmul.benchmark.executor import Matrix
    from palaestra.apps.matmul.schemes.straight_line import Program, Term
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

Numbers = list[int]


class BigIntegerExecutor:
    def __init__(self, scheme: VerifiedFactorization) -> None:
        check_field(scheme, "object")
        self.scheme = scheme
        self.programs = scheme_programs(scheme.claim, CSE_TRIES)
        programs = without_negated_factors(self.programs)
        self._left, self._right = number_steps(programs.left), number_steps(programs.right)
        self._product = number_steps(programs.product)

    def __call__(self, a: Matrix, b: Matrix, levels: int = 1) -> Matrix:
        """Pads sides that the format does not divide with zeros."""
        n, m, p = self.scheme.format.sides
        left, right = _padded(a, n**levels, m**levels), _padded(b, m**levels, p**levels)
        inner = left.shape[1] // m**levels
        numbers = self._multiply(
            _to_block_order(left, n, m, levels), _to_block_order(right, m, p, levels), inner, levels
        )
        product = np.empty(left.shape[0] * right.shape[1], dtype=object)
        product[_block_order((left.shape[0], right.shape[1]), n, p, levels)] = numbers
        return product.reshape(left.shape[0], right.shape[1])[: a.shape[0], : b.shape[1]]

    def _multiply(self, a: Numbers, b: Numbers, inner: int, levels: int) -> Numbers:
        if levels == 0:
            return _multiply_naively(a, b, inner)
        n, m, p = self.scheme.format.sides
        if len(a) == n * m and len(b) == m * p:
            return self._product.of_numbers(list(map(mul, self._left.of_numbers(a), self._right.of_numbers(b))))
        left, right = self._left.of_lists(_split_list(a, n * m)), self._right.of_lists(_split_list(b, m * p))
        products = [self._multiply(one, other, inner, levels - 1) for one, other in zip(left, right, strict=True)]
        return list(chain.from_iterable(self._product.of_lists(products)))


def _multiply_naively(a: Numbers, b: Numbers, inner: int) -> Numbers:
    """The naive product; A has rows of `inner` numbers."""
    rows = [a[i : i + inner] for i in range(0, len(a), inner)]
    wide = len(b) // inner
    columns = [b[j::wide] for j in range(wide)]
    return [sum(map(mul, row, column)) for row in rows for column in columns]


def _split_list(numbers: Numbers, count: int) -> list[Numbers]:
    size = len(numbers) // count
    return [numbers[k * size : (k + 1) * size] for k in range(count)]


def _to_block_order(matrix: Matrix, high: int, wide: int, levels: int) -> Numbers:
    numbers: Numbers = matrix.reshape(-1)[_block_order((matrix.shape[0], matrix.shape[1]), high, wide, levels)].tolist()
    return numbers


def _block_order(shape: tuple[int, int], high: int, wide: int, levels: int) -> Matrix:
    """The row-major index in the matrix of each number of the list."""
    addresses = np.arange(shape[0] * shape[1]).reshape(1, *shape)
    for _ in range(levels):
        count, rows, columns = addresses.shape
        blocks = addresses.reshape(count, high, rows // high, wide, columns // wide)
        addresses = blocks.transpose(0, 1, 3, 2, 4).reshape(-1, rows // high, columns // wide)
    return addresses.reshape(-1)


def _padded(matrix: Matrix, rows: int, columns: int) -> Matrix:
    high, wide = (-(-side // unit) * unit for side, unit in zip(matrix.shape, (rows, columns), strict=True))
    if (high, wide) == matrix.shape:
        return matrix
    padded = np.zeros((high, wide), dtype=object)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return padded


Operation = Callable[[int, int], int]
Step = tuple[Operation, int, int]  # operation and the indices of its two operands


@dataclass(frozen=True)
class NumberSteps:
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def of_numbers(self, inputs: list[int]) -> list[int]:
        known = list(inputs)
        for operation, first, second in self.steps:
            known.append(operation(known[first], known[second]))
        return [known[value] for value in self.outputs]

    def of_lists(self, inputs: list[list[int]]) -> list[list[int]]:
        """The same elementwise for lists."""
        known = list(inputs)
        for operation, first, second in self.steps:
            known.append(list(map(operation, known[first], known[second])))
        return [known[value] for value in self.outputs]


def number_steps(program: Program) -> NumberSteps:
    steps = [_step(*pair) for pair in program.steps]
    outputs = [_one_value(terms, steps, program.inputs) for terms in program.outputs]
    return NumberSteps(tuple(steps), tuple(outputs))


def _one_value(terms: tuple[Term, ...], steps: list[Step], inputs: int) -> int:
    """Appends the steps of a sum, starting with a term of coefficient 1 to avoid a negation; returns its index."""
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
