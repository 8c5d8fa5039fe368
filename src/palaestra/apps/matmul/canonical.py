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
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.fingerprint import pair_views, prime_of
from palaestra.apps.matmul.frames import Triple, normal_rows
from palaestra.apps.matmul.refinement import refined, single_rows, smallest_class, with_one_apart
from palaestra.apps.matmul.trace_form import trace_form, view

if TYPE_CHECKING:
    from palaestra.apps.matmul.factorization import Integers
    from palaestra.apps.matmul.verification import VerifiedFactorization

MOST_NODES = 400  # of the search; a scheme that needs more has no form here, and `symmetry` decides
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


class _TooManyChoices(Exception):
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
        if self.nodes > MOST_NODES:
            raise _TooManyChoices
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
            raise _TooManyChoices  # all rows are alone, and still give no bases
        finer = [refined(with_one_apart(colours, row), self.relations) for row in rows]
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
            colours, told = refined(np.diagonal(relations).copy(), relations)
            begun.append((told, order, relations, colours))
    least = min(told for told, *_ in begun)
    scale = pow(prod(claim.denominators), -1, prime)
    forms = []
    for told, order, relations, colours in begun:
        if told == least:
            search = _Search(_triples(view(factors, order), prime, scale), relations, wanted, prime)
            try:
                search.visit(colours, [])
            except _TooManyChoices:
                return None
            forms.append(search.best)
    rows = min(form for form in forms if form is not None)
    return CanonicalForm(
        str(claim.format.ascending), "gf2" if claim.field is Field.GF2 else "z", tuple(map(tuple, rows))
    )


def canonical_word(proved: VerifiedFactorization) -> str:
    form = canonical_form(proved)
    return form.word if form else ""


def _triples(factors: tuple[Integers, ...], prime: int, scale: int) -> list[Triple]:
    """Plain integers; the denominators' share goes to the first factor."""
    x, y, z = (factor.astype(object) for factor in factors)
    return [
        ((a * scale % prime).tolist(), (b % prime).tolist(), (c % prime).tolist())
        for a, b, c in zip(x, y, z, strict=True)
    ]
