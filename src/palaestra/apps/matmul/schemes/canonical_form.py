"""Canonical form of a scheme: two schemes are equivalent under symmetry exactly if their forms are equal.

Symmetries are changes of basis of the three spaces (sandwiching), cyclic rotation, transposition, the order of rows
and scalars within a row. Over gf2 and z3 the form is exact; for integers and rationals it is the form modulo the prime
2^31 - 1, which decides equivalence over that field, and for Gaussian numbers modulo another prime.

The search is individualization and refinement, as in graph canonical labelling: rows are coloured by their relations
to the others; where colours are shared, each row of the smallest class is individualized in turn (rows in one orbit of
a known automorphism once), until the rows with unique colours determine bases of all three spaces. The smallest of all
forms found is the canonical one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.fields import Echelon, Rows, invert_matrix, matmul
from palaestra.apps.matmul.schemes.fingerprint import MAX_COMPARED_ROWS, family_of, pair_views, prime_of, residue_form
from palaestra.apps.matmul.schemes.transformations import view

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Integers
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

MAX_NODES = 400  # of the search; beyond it a scheme has no form, and `symmetry` decides
Form = list[list[int]]  # rows, sorted
Permutation = tuple[int, ...]


@dataclass(frozen=True)
class CanonicalForm:
    format: str  # sides ascending
    field: str  # see `family_of`
    rows: tuple[tuple[int, ...], ...]  # the three factors in trace form, and for z a scalar

    @property
    def word(self) -> str:
        """SHA-256 of the form."""
        return hashlib.sha256(f"{self.format} {self.field} {self.rows}".encode()).hexdigest()


class _TooManyNodes(Exception):
    pass


@dataclass
class _Search:
    """The search for one order of the factors; automorphisms found on the way prune it."""

    rows: list[Triple]
    relations: Integers  # [rank, rank]
    sides: tuple[int, ...]
    prime: int
    nodes: int = 0
    leaves: dict[str, tuple[list[int], list[int]]] = field(
        default_factory=dict
    )  # form -> order of rows, individualized rows
    symmetries: list[Permutation] = field(default_factory=list)
    best: Form | None = None

    def visit(self, colours: Integers, chosen: list[int]) -> int:
        """Searches the subtree below `chosen`; returns the depth to return to (less than its length: skip siblings)."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _TooManyNodes
        normal = normal_rows(self.rows, single_rows(colours), self.sides, self.prime)
        if normal is not None:
            return self._leaf(normal, chosen)
        tried: list[int] = []
        for row, finer in self._choices(colours):
            if any(row in self._orbit(other, chosen) for other in tried):
                continue
            tried.append(row)
            depth = self.visit(finer, [*chosen, row])
            if depth < len(chosen):
                return depth
        return len(chosen)

    def _choices(self, colours: Integers) -> list[tuple[int, Integers]]:
        """The smallest class with each row individualized; only those with the smallest refinement digest."""
        rows = smallest_class(colours)
        if not rows:
            raise _TooManyNodes  # all colours are unique, but the rows determine no bases
        finer = [refine_colours(individualize(colours, row), self.relations) for row in rows]
        least = min(digest for _, digest in finer)
        return [(row, each) for row, (each, digest) in zip(rows, finer, strict=True) if digest == least]

    def _leaf(self, normal: Form, chosen: list[int]) -> int:
        order = sorted(range(len(normal)), key=lambda row: normal[row])
        form = [normal[row] for row in order]
        known = self.leaves.setdefault(repr(form), (order, chosen))
        if known[1] is chosen:
            self.best = form if self.best is None else min(self.best, form)
            return len(chosen)
        images = dict(zip(known[0], order, strict=True))
        self.symmetries.append(tuple(images[row] for row in range(len(order))))
        if [images[row] for row in known[1]] != chosen:  # an automorphism, but not one that maps the choices
            return len(chosen)
        return next(place for place, row in enumerate(known[1]) if row != chosen[place])

    def _orbit(self, row: int, fixed: list[int]) -> set[int]:
        """The orbit of a row under the known automorphisms that fix the given rows."""
        usable = [images for images in self.symmetries if all(images[one] == one for one in fixed)]
        reached, pending = {row}, [row]
        while pending:
            one = pending.pop()
            fresh = {images[one] for images in usable} - reached
            reached |= fresh
            pending.extend(fresh)
        return reached


def canonical_form(proved: VerifiedFactorization) -> CanonicalForm | None:
    """None if the search is too large, as for the naive schemes over the integers."""
    claim = proved.claim
    if claim.rank > MAX_COMPARED_ROWS:
        return None
    wanted, prime = claim.format.ascending.sides, prime_of(claim.field)
    factors = residue_form(claim)
    views = []
    for order, sides, pairs in pair_views(proved):
        if sides == wanted:
            relations = pairs @ (max(16, int(pairs.max()) + 1) ** np.arange(pairs.shape[-1]))
            colours, digest = refine_colours(np.diagonal(relations).copy(), relations)
            views.append((digest, order, relations, colours))
    least = min(digest for digest, *_ in views)
    scale = pow(prod(claim.denominators), -1, prime)
    forms = []
    for digest, order, relations, colours in views:
        if digest == least:
            search = _Search(_triples(view(factors, order), prime, scale), relations, wanted, prime)
            try:
                search.visit(colours, [])
            except _TooManyNodes:
                return None
            forms.append(search.best)
    rows = min(form for form in forms if form is not None)
    return CanonicalForm(str(claim.format.ascending), family_of(claim.field), tuple(map(tuple, rows)))


def canonical_hash(proved: VerifiedFactorization) -> str:
    form = canonical_form(proved)
    return form.word if form else ""


def _triples(factors: tuple[Integers, ...], prime: int, scale: int) -> list[Triple]:
    """Rows as Python integers modulo the prime; the first factor is scaled by the denominators."""
    x, y, z = (factor.astype(object) for factor in factors)
    return [
        ((a * scale % prime).tolist(), (b % prime).tolist(), (c % prime).tolist())
        for a, b, c in zip(x, y, z, strict=True)
    ]


def refine_colours(colours: Integers, relations: Integers) -> tuple[Integers, str]:
    """Refines colours [rank] by `relations` [rank, rank] until stable; also a digest of all signatures."""
    digest = hashlib.sha256()
    colours = _numbered(colours[:, None], digest)
    while True:
        neighbours = np.sort(relations * len(colours) + colours[None, :], axis=1)
        finer = _numbered(np.concatenate([colours[:, None], neighbours], axis=1), digest)
        if finer.max() == colours.max():
            return finer, digest.hexdigest()
        colours = finer


def individualize(colours: Integers, row: int) -> Integers:
    """Gives a row a colour of its own, just before its class."""
    split = 2 * colours + 1
    split[row] -= 1
    return split


def single_rows(colours: Integers) -> list[int]:
    """Rows with a unique colour, ordered by colour."""
    counts = np.bincount(colours)
    return [int(row) for row in np.argsort(colours, kind="stable") if counts[colours[row]] == 1]


def smallest_class(colours: Integers) -> list[int]:
    """The smallest class of more than one row, the lowest colour first; empty if all colours are unique."""
    counts = np.bincount(colours)
    shared = [(int(count), colour) for colour, count in enumerate(counts) if count > 1]
    return np.flatnonzero(colours == min(shared)[1]).tolist() if shared else []


def _numbered(signatures: Integers, digest: hashlib._Hash) -> Integers:
    """Numbers the signatures by their sort order."""
    different, numbers, counts = np.unique(signatures, axis=0, return_inverse=True, return_counts=True)
    digest.update(different.tobytes())
    digest.update(counts.tobytes())
    return numbers.reshape(-1).astype(np.int64)


Triple = tuple[Rows, Rows, Rows]  # factor k maps space k + 1 to space k
Vector = list[int]
Edge = tuple[int, int, int, int]  # a space, two of its vectors, and the ratio of their scales


def normal_rows(rows: list[Triple], frame_rows: list[int], sides: tuple[int, ...], prime: int) -> list[Vector] | None:
    """All rows in the coordinates that `frame_rows` determine; None if they determine none."""
    bases = _bases([rows[row] for row in frame_rows], sides, prime)
    if bases is None:
        return None
    inverses = [invert_matrix(base, prime) for base in bases]
    moved = [_transform(row, bases, inverses, prime) for row in rows]
    if prime == 2:
        return [[entry for factor in row for line in factor for entry in line] for row in moved]
    scales = _scales([moved[row] for row in frame_rows], sides, prime)
    return None if scales is None else [_normalize_row(row, scales, prime) for row in moved]


def _bases(frame_rows: list[Triple], sides: tuple[int, ...], prime: int) -> list[Rows] | None:
    """For each space the first independent vectors, as columns."""
    pending = [
        (k, line) for row in frame_rows for k in range(3) if (line := _spanning_column(row[k], prime)) is not None
    ]
    spans = [Echelon(prime) for _ in sides]
    found: list[list[Vector]] = [[] for _ in sides]
    for space, vector in pending:  # the list grows during the loop
        if len(found[space]) < sides[space] and spans[space].add(vector):
            found[space].append(vector)
            onward = (space + 2) % 3
            pending.extend((onward, _applied(row[onward], vector, prime)) for row in frame_rows)
    if any(len(vectors) < side for vectors, side in zip(found, sides, strict=True)):
        return None
    return [[list(column) for column in zip(*vectors, strict=True)] for vectors in found]


def _spanning_column(factor: Rows, prime: int) -> Vector | None:
    """The column that spans a factor of rank one; None for other ranks."""
    columns = [list(column) for column in zip(*factor, strict=True)]
    span = Echelon(prime)
    lines = [column for column in columns if span.add(column)]
    return lines[0] if len(lines) == 1 else None


def _applied(factor: Rows, vector: Vector, prime: int) -> Vector:
    return [sum(a * b for a, b in zip(line, vector, strict=True)) % prime for line in factor]


def _transform(row: Triple, bases: list[Rows], inverses: list[Rows], prime: int) -> Triple:
    x, y, z = (matmul(matmul(inverses[k], row[k], prime), bases[(k + 1) % 3], prime) for k in range(3))
    return x, y, z


def _scales(frame_rows: list[Triple], sides: tuple[int, ...], prime: int) -> list[Vector] | None:
    """A scale for each basis vector that makes connected entries equal; None if some scales stay undetermined."""
    scales = [[1] * side for side in sides]
    components = [list(range(side)) for side in sides]  # connected components of vectors
    for space, one, other, ratio in _edges(frame_rows, prime):
        component = components[space]
        if component[one] == component[other]:
            continue
        factor = scales[space][one] * ratio * pow(scales[space][other], -1, prime) % prime
        joined = component[other]
        for place, number in enumerate(component):
            if number == joined:
                component[place] = component[one]
                scales[space][place] = scales[space][place] * factor % prime
    return scales if all(len(set(component)) == 1 for component in components) else None


def _edges(frame_rows: list[Triple], prime: int) -> list[Edge]:
    """Ratios of neighbouring entries; entry (i, j) scales with vector j of the source and inversely with i."""
    found: list[Edge] = []
    for row in frame_rows:
        for k, factor in enumerate(row):
            places = [(i, j) for i, line in enumerate(factor) for j, entry in enumerate(line) if entry]
            for (i, j), (m, n) in pairwise(places):
                if i == m:
                    found.append(((k + 1) % 3, j, n, factor[i][j] * pow(factor[m][n], -1, prime) % prime))
            places.sort(key=lambda place: (place[1], place[0]))
            for (i, j), (m, n) in pairwise(places):
                if j == n:
                    found.append((k, i, m, factor[m][n] * pow(factor[i][j], -1, prime) % prime))
    return found


def _normalize_row(row: Triple, scales: list[Vector], prime: int) -> Vector:
    """Each factor divided by its first nonzero entry, then the product of these three entries."""
    normalized: Vector = []
    scale = 1
    for k, factor in enumerate(row):
        target, source = scales[k], scales[(k + 1) % 3]
        entries = [
            entry * source[j] * pow(target[i], -1, prime) % prime
            for i, line in enumerate(factor)
            for j, entry in enumerate(line)
        ]
        first = next(entry for entry in entries if entry)
        back = pow(first, -1, prime)
        scale = scale * first % prime
        normalized.extend(entry * back % prime for entry in entries)
    return [*normalized, scale]
