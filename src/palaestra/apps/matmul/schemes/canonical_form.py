"""One form for all schemes that are one up to symmetry: equal forms prove it, and different forms disprove it.

Symmetries are other bases of the three spaces (the sandwich), the cyclic turn, the transposition, the order of rows
and scalars within a row. Over gf2 the form is exact; for whole numbers and fractions it is that of the scheme modulo
the prime 2^31 - 1, which tells schemes apart over that field.

Rows are told apart by what they see in the others. Where that leaves a choice, every choice is followed (those that
a symmetry of the scheme itself carries into each other, once) until the rows that are alone in their kind bring
bases for all three spaces; of all forms that come about so, the smallest counts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.fields import Echelon, Field, Rows, invert_matrix, matmul
from palaestra.apps.matmul.schemes.fingerprint import pair_views, prime_of
from palaestra.apps.matmul.schemes.transformations import trace_form, view

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Integers
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

MAX_NODES = 400  # of the search; a scheme that needs more has no form here, and `symmetry` decides
Form = list[list[int]]  # rows, sorted
Permutation = tuple[int, ...]


@dataclass(frozen=True)
class CanonicalForm:
    format: str  # sides ascending
    field: str  # gf2 or z
    rows: tuple[tuple[int, ...], ...]  # the three factors in trace form; for z also a scalar

    @property
    def word(self) -> str:
        """SHA-256 of the whole form."""
        return hashlib.sha256(f"{self.format} {self.field} {self.rows}".encode()).hexdigest()


class _TooManyNodes(Exception):
    pass


@dataclass
class _Search:
    """One view of a scheme; what was found on the way spares ways that are the same."""

    rows: list[Triple]
    relations: Integers  # [rank, rank]
    sides: tuple[int, ...]
    prime: int
    nodes: int = 0
    leaves: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict)  # form -> rows in order, choices
    symmetries: list[Permutation] = field(default_factory=list)
    best: Form | None = None

    def visit(self, colours: Integers, chosen: list[int]) -> int:
        """Follows all choices below; returns how many of `chosen` are still worth following others beside."""
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
            worth = self.visit(finer, [*chosen, row])
            if worth < len(chosen):
                return worth
        return len(chosen)

    def _choices(self, colours: Integers) -> list[tuple[int, Integers]]:
        """Rows of the smallest class, each set apart; only those after which the least is seen."""
        rows = smallest_class(colours)
        if not rows:
            raise _TooManyNodes  # all rows are alone, and still give no bases
        finer = [refine_colours(individualize(colours, row), self.relations) for row in rows]
        least = min(told for _, told in finer)
        return [(row, each) for row, (each, told) in zip(rows, finer, strict=True) if told == least]

    def _leaf(self, normal: Form, chosen: list[int]) -> int:
        order = sorted(range(len(normal)), key=lambda row: normal[row])
        form = [normal[row] for row in order]
        known = self.leaves.setdefault(repr(form), (order, chosen))
        if known[1] is chosen:
            self.best = form if self.best is None else min(self.best, form)
            return len(chosen)
        images = dict(zip(known[0], order, strict=True))
        self.symmetries.append(tuple(images[row] for row in range(len(order))))
        if [images[row] for row in known[1]] != chosen:  # a symmetry, but not one of the ways that led here
            return len(chosen)
        return next(place for place, row in enumerate(known[1]) if row != chosen[place])

    def _orbit(self, row: int, fixed: list[int]) -> set[int]:
        """Where symmetries that leave the fixed rows alone carry this one."""
        usable = [images for images in self.symmetries if all(images[one] == one for one in fixed)]
        reached, waiting = {row}, [row]
        while waiting:
            one = waiting.pop()
            fresh = {images[one] for images in usable} - reached
            reached |= fresh
            waiting.extend(fresh)
        return reached


def canonical_form(proved: VerifiedFactorization) -> CanonicalForm | None:
    """None for a scheme with more choices than are followed, such as the schoolbook's."""
    claim = proved.claim
    wanted, prime = claim.format.ascending.sides, prime_of(claim.field)
    factors = trace_form(claim)
    begun = []
    for order, sides, pairs in pair_views(proved):
        if sides == wanted:
            relations = pairs @ (16 ** np.arange(pairs.shape[-1]))  # a rank is at most 12
            colours, told = refine_colours(np.diagonal(relations).copy(), relations)
            begun.append((told, order, relations, colours))
    least = min(told for told, *_ in begun)
    scale = pow(prod(claim.denominators), -1, prime)
    forms = []
    for told, order, relations, colours in begun:
        if told == least:
            search = _Search(_triples(view(factors, order), prime, scale), relations, wanted, prime)
            try:
                search.visit(colours, [])
            except _TooManyNodes:
                return None
            forms.append(search.best)
    rows = min(form for form in forms if form is not None)
    return CanonicalForm(
        str(claim.format.ascending), "gf2" if claim.field is Field.GF2 else "z", tuple(map(tuple, rows))
    )


def canonical_hash(proved: VerifiedFactorization) -> str:
    form = canonical_form(proved)
    return form.word if form else ""


def _triples(factors: tuple[Integers, ...], prime: int, scale: int) -> list[Triple]:
    """Plain integers; the denominators' share goes to the first factor."""
    x, y, z = (factor.astype(object) for factor in factors)
    return [
        ((a * scale % prime).tolist(), (b % prime).tolist(), (c % prime).tolist())
        for a, b, c in zip(x, y, z, strict=True)
    ]


def refine_colours(colours: Integers, relations: Integers) -> tuple[Integers, str]:
    """The finest colours [rank] that `relations` [rank, rank] between rows give, and a word for all that was seen."""
    told = hashlib.sha256()
    colours = _numbered(colours[:, None], told)
    while True:
        neighbours = np.sort(relations * len(colours) + colours[None, :], axis=1)
        finer = _numbered(np.concatenate([colours[:, None], neighbours], axis=1), told)
        if finer.max() == colours.max():
            return finer, told.hexdigest()
        colours = finer


def individualize(colours: Integers, row: int) -> Integers:
    """This row before the others of its colour."""
    split = 2 * colours + 1
    split[row] -= 1
    return split


def single_rows(colours: Integers) -> list[int]:
    """Rows with a colour of their own, by colour."""
    counts = np.bincount(colours)
    return [int(row) for row in np.argsort(colours, kind="stable") if counts[colours[row]] == 1]


def smallest_class(colours: Integers) -> list[int]:
    """The fewest rows that still share a colour; of several such, those with the lowest. None: an empty list."""
    counts = np.bincount(colours)
    shared = [(int(count), colour) for colour, count in enumerate(counts) if count > 1]
    return np.flatnonzero(colours == min(shared)[1]).tolist() if shared else []


def _numbered(seen: Integers, told: hashlib._Hash) -> Integers:
    """What each row saw, as a number: the place of it among all that was seen."""
    different, numbers, counts = np.unique(seen, axis=0, return_inverse=True, return_counts=True)
    told.update(different.tobytes())
    told.update(counts.tobytes())
    return numbers.reshape(-1).astype(np.int64)


Triple = tuple[Rows, Rows, Rows]  # factor k leads from space k + 1 to space k
Vector = list[int]
Edge = tuple[int, int, int, int]  # a space, two of its vectors, and how much longer the second must be


def normal_rows(rows: list[Triple], asked: list[int], sides: tuple[int, ...], prime: int) -> list[Vector] | None:
    """Every row in the coordinates that the asked ones give; None when they do not give any."""
    bases = _bases([rows[row] for row in asked], sides, prime)
    if bases is None:
        return None
    inverses = [invert_matrix(base, prime) for base in bases]
    moved = [_transform(row, bases, inverses, prime) for row in rows]
    if prime == 2:
        return [[entry for factor in row for line in factor for entry in line] for row in moved]
    lengths = _lengths([moved[row] for row in asked], sides, prime)
    return None if lengths is None else [_normalize_row(row, lengths, prime) for row in moved]


def _bases(asked: list[Triple], sides: tuple[int, ...], prime: int) -> list[Rows] | None:
    """For each space the first independent lines, as columns."""
    waiting = [(k, line) for row in asked for k in range(3) if (line := _line(row[k], prime)) is not None]
    spans = [Echelon(prime) for _ in sides]
    found: list[list[Vector]] = [[] for _ in sides]
    for space, vector in waiting:  # grows while it is read
        if len(found[space]) < sides[space] and spans[space].add(vector):
            found[space].append(vector)
            onward = (space + 2) % 3
            waiting.extend((onward, _applied(row[onward], vector, prime)) for row in asked)
    if any(len(vectors) < side for vectors, side in zip(found, sides, strict=True)):
        return None
    return [[list(column) for column in zip(*vectors, strict=True)] for vectors in found]


def _line(factor: Rows, prime: int) -> Vector | None:
    """What all columns are multiples of, when they are."""
    columns = [list(column) for column in zip(*factor, strict=True)]
    span = Echelon(prime)
    lines = [column for column in columns if span.add(column)]
    return lines[0] if len(lines) == 1 else None


def _applied(factor: Rows, vector: Vector, prime: int) -> Vector:
    return [sum(a * b for a, b in zip(line, vector, strict=True)) % prime for line in factor]


def _transform(row: Triple, bases: list[Rows], inverses: list[Rows], prime: int) -> Triple:
    x, y, z = (matmul(matmul(inverses[k], row[k], prime), bases[(k + 1) % 3], prime) for k in range(3))
    return x, y, z


def _lengths(asked: list[Triple], sides: tuple[int, ...], prime: int) -> list[Vector] | None:
    """A length for each vector of each space, so that entries become equal one by one; None when some are left open."""
    lengths = [[1] * side for side in sides]
    parts = [list(range(side)) for side in sides]  # vectors whose lengths hang together have one number
    for space, one, other, ratio in _edges(asked, prime):
        part = parts[space]
        if part[one] == part[other]:
            continue
        factor = lengths[space][one] * ratio * pow(lengths[space][other], -1, prime) % prime
        joined = part[other]
        for place, number in enumerate(part):
            if number == joined:
                part[place] = part[one]
                lengths[space][place] = lengths[space][place] * factor % prime
    return lengths if all(len(set(part)) == 1 for part in parts) else None


def _edges(asked: list[Triple], prime: int) -> list[Edge]:
    """An entry (i, j) grows with vector j of the space it comes from, and shrinks with vector i of where it leads."""
    found: list[Edge] = []
    for row in asked:
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


def _normalize_row(row: Triple, lengths: list[Vector], prime: int) -> Vector:
    """Each factor divided by its first nonzero, and the product of the three that were taken out."""
    words: Vector = []
    scale = 1
    for k, factor in enumerate(row):
        target, source = lengths[k], lengths[(k + 1) % 3]
        entries = [
            entry * source[j] * pow(target[i], -1, prime) % prime
            for i, line in enumerate(factor)
            for j, entry in enumerate(line)
        ]
        first = next(entry for entry in entries if entry)
        back = pow(first, -1, prime)
        scale = scale * first % prime
        words.extend(entry * back % prime for entry in entries)
    return [*words, scale]
