"""Straight-line programs of additions, after greedy common-subexpression elimination (CSE).

The most frequent pair of terms becomes a new value, repeatedly; ties are broken at random and the best of several
tries is returned. A transposed program computes the transposed table, so each table is tried in both directions. The
same programs are counted, printed and compiled.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from math import gcd, inf
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palaestra.apps.matmul.schemes.factorization import Factorization, Integers

Term = tuple[int, int]  # index of a value, and its coefficient
Sum = dict[int, int]  # index of a value -> coefficient
Pair = tuple[int, int, int, int]  # two values, then their coefficients: first positive, gcd 1


@dataclass(frozen=True)
class Program:
    """Values 0 … inputs - 1 are the inputs; step k computes value inputs + k from two earlier values."""

    inputs: int
    steps: tuple[tuple[Term, Term], ...]
    outputs: tuple[tuple[Term, ...], ...]  # remaining terms of each output, to be added

    @property
    def additions(self) -> int:
        return len(self.steps) + sum(max(len(terms) - 1, 0) for terms in self.outputs)


@dataclass(frozen=True)
class SchemePrograms:
    left: Program  # entries of A -> left factors
    right: Program  # entries of B -> right factors
    product: Program  # products -> entries of C

    @property
    def additions(self) -> int:
        return self.left.additions + self.right.additions + self.product.additions


def scheme_programs(claim: Factorization, tries: int = 4, deadline: float = inf) -> SchemePrograms:
    left, right, product = (find_short_program(table, tries, deadline) for table in (claim.u, claim.v, claim.w.T))
    return SchemePrograms(left, right, product)


def find_short_program(table: Integers, tries: int, deadline: float = inf) -> Program:
    """A short program for outputs = table @ inputs; table is [outputs, inputs]. Deterministic for a number of tries.

    No further try starts after `deadline` (time.monotonic); the first is always made.
    """
    found = [naive_program(table)]
    for attempt in range(tries):
        if attempt and time.monotonic() >= deadline:
            break
        rng = random.Random(attempt)  # noqa: S311 - breaks ties
        found.append(_eliminate_greedily(table, rng))
        found.append(transposed(_eliminate_greedily(table.T, rng), table.shape[1]))
    return min(found, key=lambda program: program.additions)


def naive_program(table: Integers) -> Program:
    return Program(table.shape[1], (), tuple(tuple(sorted(row.items())) for row in _sums(table)))


def evaluate(program: Program, values: Integers) -> Integers:
    """The outputs of a program for `values` [inputs, …]."""
    known = list(values)
    for (first, one), (second, other) in program.steps:
        known.append(one * known[first] + other * known[second])
    zero = np.zeros_like(values[0])
    return np.stack([sum((c * known[value] for value, c in terms), zero) for terms in program.outputs])


def transposed(program: Program, outputs: int) -> Program:
    """The program of the transposed table. `outputs`: number of outputs of `program`, inputs of the result."""
    users: dict[int, list[Term]] = {}
    for index, terms in enumerate(program.outputs):
        for value, coefficient in terms:
            users.setdefault(value, []).append((index, coefficient))
    steps: list[tuple[Term, Term]] = []
    for place in reversed(range(len(program.steps))):
        total = _chained(users.pop(program.inputs + place, []), steps, outputs)
        if total is not None:
            for value, coefficient in program.steps[place]:
                users.setdefault(value, []).append((total[0], total[1] * coefficient))
    return Program(outputs, tuple(steps), tuple(tuple(users.get(value, [])) for value in range(program.inputs)))


def _chained(terms: list[Term], steps: list[tuple[Term, Term]], inputs: int) -> Term | None:
    """Appends steps that add the terms in order; returns the sum as one term."""
    if not terms:
        return None
    total = terms[0]
    for term in terms[1:]:
        steps.append((total, term))
        total = (inputs + len(steps) - 1, 1)
    return total


def _sums(table: Integers) -> list[Sum]:
    return [{place: int(value) for place, value in enumerate(row) if value} for row in table.tolist()]


def _eliminate_greedily(table: Integers, rng: random.Random) -> Program:
    work, inputs = _sums(table), table.shape[1]
    counts: Counter[Pair] = Counter(pair for each in work for pair in _pairs(each))
    steps: list[tuple[Term, Term]] = []
    while counts:
        most = max(counts.values())
        if most < 2:
            break
        best = rng.choice([pair for pair, coefficient in counts.items() if coefficient == most])
        first, second, one, other = best
        name = inputs + len(steps)
        steps.append(((first, one), (second, other)))
        gone: set[Pair] = set()
        for each in work:
            if first in each and second in each and _pair(first, each[first], second, each[second]) == best:
                before = [pair for value in (first, second) for pair in _pairs_with(value, each)]
                counts.subtract(before)
                counts[best] += 1  # subtracted twice: it is in both lists
                coefficient = each[first] // one
                del each[first], each[second]
                each[name] = coefficient
                counts.update(_pairs_with(name, each))
                gone.update(before)
        for pair in gone:
            if counts[pair] <= 0:
                del counts[pair]
    return Program(inputs, tuple(steps), tuple(tuple(sorted(each.items())) for each in work))


def _pairs(each: Sum) -> Iterable[Pair]:
    terms = sorted(each.items())
    return [_pair(*first, *second) for i, first in enumerate(terms) for second in terms[i + 1 :]]


def _pairs_with(value: int, each: Sum) -> list[Pair]:
    """All pairs of a sum that contain this value."""
    coefficient = each[value]
    return [
        _pair(other, factor, value, coefficient) if other < value else _pair(value, coefficient, other, factor)
        for other, factor in sorted(each.items())
        if other != value
    ]


def _pair(first: int, one: int, second: int, other: int) -> Pair:
    """The normalized pair: pairs that differ by a factor are equal."""
    common = gcd(one, other) if one > 0 else -gcd(one, other)
    return first, second, one // common, other // common


@dataclass(frozen=True)
class Additions:
    naive: int
    eliminated: int  # after CSE; an upper bound of the minimum


def count_additions(claim: Factorization, tries: int = 4, deadline: float = inf) -> Additions:
    """Additions of entries of A, entries of B and products; fewer tries if `deadline` (time.monotonic) comes first.

    Of complex coefficients only the naive additions are counted.
    """
    if claim.imaginary is not None:
        patterns = [(table != 0).astype(np.int64) for table in claim.tables]
        complex_naive = sum(naive_program(table).additions for table in (patterns[0], patterns[1], patterns[2].T))
        return Additions(complex_naive, complex_naive)
    naive = sum(naive_program(table).additions for table in (claim.u, claim.v, claim.w.T))
    return Additions(naive, scheme_programs(claim, tries, deadline).additions)


def count_pairs(claim: Factorization) -> int:
    """Pairs of terms in the sums of all three tables and their transposes, which the elimination goes through."""
    total = 0
    for table in claim.tables:
        pattern = table != 0
        for axis in (0, 1):
            terms = pattern.sum(axis=axis)
            total += int((terms * (terms - 1) // 2).sum())
    return total


def without_negated_factors(programs: SchemePrograms) -> SchemePrograms:
    left, right = _negated(programs.left), _negated(programs.right)
    negated, product = left ^ right, programs.product
    steps = tuple((_negate_if(one, negated), _negate_if(other, negated)) for one, other in product.steps)
    outputs = tuple(tuple(_negate_if(term, negated) for term in terms) for terms in product.outputs)
    return SchemePrograms(
        _with_negated_outputs(programs.left, left),
        _with_negated_outputs(programs.right, right),
        Program(product.inputs, steps, outputs),
    )


def _negated(program: Program) -> set[int]:
    """Indices of outputs that are one negated value."""
    return {k for k, terms in enumerate(program.outputs) if len(terms) == 1 and terms[0][1] == -1}


def _with_negated_outputs(program: Program, which: set[int]) -> Program:
    outputs = tuple(
        tuple((value, -coefficient) for value, coefficient in terms) if output in which else terms
        for output, terms in enumerate(program.outputs)
    )
    return Program(program.inputs, program.steps, outputs)


def _negate_if(term: Term, products: set[int]) -> Term:
    value, coefficient = term
    return (value, -coefficient) if value in products else term
