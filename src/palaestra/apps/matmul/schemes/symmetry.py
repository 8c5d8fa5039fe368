"""Equivalence of two schemes under symmetry: a search for the three basis changes that map one to the other.

In trace form x -> G x H^-1, y -> H y K^-1, z -> K z G^-1 preserves the product. Mapping row r to row s is linear in
(G, H, K); a few such rows determine one solution, which is then checked on all rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.fields import Echelon, Rows, invert_matrix, matmul, matrix_rank
from palaestra.apps.matmul.schemes.fingerprint import (
    MAX_COMPARED_ROWS,
    family_of,
    prime_of,
    residue_form,
    row_colours,
    row_digest,
)
from palaestra.apps.matmul.schemes.transformations import view

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Integers
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

Triple = tuple[Rows, Rows, Rows]
Bases = tuple[Rows, Rows, Rows]
SIGNS = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
MAX_STEPS = 2_000  # of the search; beyond it two schemes count as different


@dataclass(frozen=True)
class _Problem:
    source: list[Triple]
    target: list[Triple]
    candidates: list[list[int]]  # possible images of each source row, in search order
    order: list[int]
    sides: tuple[int, ...]
    prime: int


def are_equivalent(first: VerifiedFactorization, second: VerifiedFactorization) -> bool:
    """True only if a symmetry that maps the first to the second was found."""
    both = {family_of(first.field), family_of(second.field)}
    if first.rank != second.rank or first.format.ascending != second.format.ascending or len(both) > 1:
        return False
    if row_digest(first) == row_digest(second):
        return True
    if first.rank > MAX_COMPARED_ROWS:
        return False
    prime = prime_of(first.field)
    source = residue_form(first.claim)
    colours = row_colours(first)[0][1]
    target = residue_form(second.claim)
    coloured = row_colours(second)
    views = zip(permutations(range(3)), coloured, strict=True)
    return any(
        _find(_build_problem(source, view(target, order), colours, other, first.format.sides, prime))
        for order, (sides, other) in views
        if sides == first.format.sides and Counter(other) == Counter(colours)
    )


def _build_problem(
    source: tuple[Integers, ...],
    target: tuple[Integers, ...],
    colours: list[str],
    other: list[str],
    sides: tuple[int, ...],
    prime: int,
) -> _Problem:
    """Rows with rare colours come first: they have the fewest possible images."""
    frequency = Counter(colours)
    order = sorted(range(len(colours)), key=lambda row: (frequency[colours[row]], row))
    candidates = [[row for row, colour in enumerate(other) if colour == colours[each]] for each in order]
    return _Problem(_triples(source), _triples(target), candidates, order, sides, prime)


def _triples(factors: tuple[Integers, ...]) -> list[Triple]:
    return [(x.tolist(), y.tolist(), z.tolist()) for x, y, z in zip(*factors, strict=True)]


def _find(problem: _Problem) -> bool:
    """Depth-first search over images of rows; checks the solutions once at most one dimension is left."""
    size = sum(side * side for side in problem.sides)
    signs = SIGNS[:1] if problem.prime == 2 else SIGNS
    pending: list[tuple[int, Echelon, frozenset[int]]] = [(0, Echelon(problem.prime), frozenset())]
    for _ in range(MAX_STEPS):
        if not pending:
            return False
        depth, known, used = pending.pop()
        if depth == len(problem.order) or size - known.rank <= 1:
            if any(_maps_onto(problem, _bases(solution, problem.sides)) for solution in known.kernel(size)):
                return True
            continue
        row = problem.source[problem.order[depth]]
        for image in problem.candidates[depth]:
            if image not in used:
                for sign in signs:
                    more = _with_image(known, row, problem.target[image], sign, problem.sides)
                    if more.rank < size:
                        pending.append((depth + 1, more, used | {image}))
    return False


def _with_image(known: Echelon, row: Triple, image: Triple, signs: tuple[int, ...], sides: tuple[int, ...]) -> Echelon:
    """Adds the equations M row = sign * image N for (M, N) = (G, H), (H, K), (K, G); unknowns in row-major order."""
    more = known.copy()
    starts = [0, sides[0] ** 2, sides[0] ** 2 + sides[1] ** 2]
    size = sum(side * side for side in sides)
    for k in range(3):
        left, right = sides[k], sides[(k + 1) % 3]
        for i in range(left):
            for j in range(right):
                equation = [0] * size
                for t in range(left):
                    equation[starts[k] + i * left + t] += row[k][t][j]
                for t in range(right):
                    equation[starts[(k + 1) % 3] + t * right + j] -= signs[k] * image[k][i][t]
                more.add(equation)
    return more


def _bases(solution: list[int], sides: tuple[int, ...]) -> Bases:
    found, start = [], 0
    for side in sides:
        found.append([solution[start + i * side : start + (i + 1) * side] for i in range(side)])
        start += side * side
    return found[0], found[1], found[2]


def _maps_onto(problem: _Problem, bases: Bases) -> bool:
    """True if all three matrices are invertible and map the source rows onto the target rows."""
    prime = problem.prime
    if any(matrix_rank(base, prime) < len(base) for base in bases):
        return False
    inverses = [invert_matrix(base, prime) for base in bases]
    images = Counter(_normalize_row(triple, prime) for triple in problem.target)
    moved = Counter(_normalize_row(_transform(triple, bases, inverses, prime), prime) for triple in problem.source)
    return images == moved


def _transform(triple: Triple, bases: Bases, inverses: list[Rows], prime: int) -> Triple:
    x, y, z = (matmul(matmul(bases[k], triple[k], prime), inverses[(k + 1) % 3], prime) for k in range(3))
    return x, y, z


def _normalize_row(triple: Triple, prime: int) -> str:
    """A row up to scalars: each factor is divided by its first nonzero entry; the product of the scalars is 1."""
    words = []
    for factor in triple:
        entries = np.array(factor, dtype=object).ravel() % prime
        first = next(int(entry) for entry in entries if entry)
        words.append(str([int(entry) * pow(first, -1, prime) % prime for entry in entries]))
    return " ".join(words)
