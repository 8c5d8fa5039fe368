"""How many additions a scheme takes, written out plainly and after sums that recur are made once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.matmul.factorization import Factorization, Integers

Sum = dict[int, int]  # place -> coefficient
Pair = tuple[int, int, int, int]  # two places, the sign between them as (numerator, denominator) of a ratio


@dataclass(frozen=True)
class Additions:
    naive: int
    eliminated: int  # greedy: an upper bound of what is possible


def count_additions(claim: Factorization) -> Additions:
    """Sums of entries of A, sums of entries of B, sums of products."""
    tables = [claim.u, claim.v, claim.w.T]
    naive = sum(len(each) - 1 for table in tables for each in _sums(table))
    return Additions(naive, sum(_eliminated(_sums(table), table.shape[1]) for table in tables))


def _sums(table: Integers) -> list[Sum]:
    rows = ({place: int(value) for place, value in enumerate(row) if value} for row in table.tolist())
    return [row for row in rows if row]


def _eliminated(sums: Sequence[Sum], places: int) -> int:
    """Take the pair that recurs most, give its sum a name, and again; equal sums are made once."""
    work = [dict(each) for each in sums]
    made = 0
    while True:
        counts = Counter(pair for each in work for pair in _pairs(each))
        if not counts:
            return made
        best, times = min(counts.items(), key=lambda item: (-item[1], item[0]))
        if times < 2:
            return made + sum(len(each) - 1 for each in work)
        made += 1
        work = [_named(each, best, places) for each in work]
        places += 1


def _pairs(each: Sum) -> list[Pair]:
    terms = sorted(each.items())
    return [_pair(a, b) for i, a in enumerate(terms) for b in terms[i + 1 :]]


def _pair(first: tuple[int, int], second: tuple[int, int]) -> Pair:
    """Sums that differ by a sign are one; other ratios keep their coefficients."""
    sign = 1 if first[1] > 0 else -1
    return first[0], second[0], sign * first[1], sign * second[1]


def _named(each: Sum, pair: Pair, name: int) -> Sum:
    first, second, one, other = pair
    for sign in (1, -1):
        if each.get(first) == sign * one and each.get(second) == sign * other:
            rest = {place: value for place, value in each.items() if place not in {first, second}}
            return rest | {name: sign}
    return each
