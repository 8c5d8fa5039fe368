"""A hash that is invariant under all symmetries of a scheme.

Symmetries: order of rows, signs within a row, changes of basis of the three spaces (sandwiching), cyclic rotation and
transposition. They preserve the ranks of factors, alone and of two factors stacked horizontally or vertically. Equal
fingerprints are a strong hint of equivalence, not a proof; see `canonical_form` and `symmetry`.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.fields import Field, matrix_rank
from palaestra.apps.matmul.schemes.transformations import STRAIGHT, trace_form

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Format, Integers
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

BIG_PRIME = 2_147_483_647  # replaces the integers and the rationals
LETTERS = 16


def prime_of(field: Field) -> int:
    return 2 if field is Field.GF2 else BIG_PRIME


def fingerprint(proved: VerifiedFactorization) -> str:
    claim = proved.claim
    words = [repr(sorted(colours)) for kind, colours in row_colours(proved) if kind == claim.format.ascending.sides]
    field = "gf2" if claim.field is Field.GF2 else "z"  # a scheme over zt is also one over z
    text = f"{claim.format.ascending} {field} {claim.rank} {min(words)}"
    return hashlib.sha256(text.encode()).hexdigest()[:LETTERS]


Colours = list[str]
View = tuple[tuple[int, ...], tuple[int, ...], "Integers"]


def row_colours(proved: VerifiedFactorization) -> list[tuple[tuple[int, ...], Colours]]:
    """For each of the six orders of the factors: the sides in that order, and a colour of each row."""
    return [(sides, _refined(pairs)) for _, sides, pairs in pair_views(proved)]


@lru_cache(maxsize=8)  # fingerprint and canonical form of a scheme share it
def pair_views(proved: VerifiedFactorization) -> tuple[View, ...]:
    """The six orders of the factors, the sides in that order, and the ranks of pairs of rows [rank, rank, 6]."""
    vertical, horizontal = _pair_ranks(trace_form(proved.claim), prime_of(proved.field))
    found = []
    for order in permutations(range(3)):
        straight = order in STRAIGHT
        first, second = (vertical, horizontal) if straight else (horizontal, vertical)
        pairs = np.stack([*(first[k] for k in order), *(second[k] for k in order)], axis=-1)
        found.append((order, _sides(proved.format, order, straight=straight), pairs))
    return tuple(found)


def _sides(format_: Format, order: tuple[int, ...], *, straight: bool) -> tuple[int, ...]:
    """Factor k maps side k + 1 to side k; transposed, the reverse."""
    starts = [format_.sides[k] if straight else format_.sides[(k + 1) % 3] for k in order]
    return tuple(starts)


def _refined(pairs: Integers, rounds: int = 2) -> Colours:
    rank = len(pairs)
    table = pairs.tolist()
    colours = [str(table[row][row]) for row in range(rank)]
    for _ in range(rounds):
        signatures = [
            colours[row] + str(sorted((colours[other], table[row][other]) for other in range(rank) if other != row))
            for row in range(rank)
        ]
        colours = [hashlib.sha256(text.encode()).hexdigest()[:LETTERS] for text in signatures]
    return colours


def _pair_ranks(factors: tuple[Integers, Integers, Integers], prime: int) -> tuple[list[Integers], list[Integers]]:
    """Ranks of the matrices of rows r and s stacked vertically and horizontally; each [rank, rank]."""
    vertical = [_ranks(factor, prime) for factor in factors]
    horizontal = [_ranks(factor.transpose(0, 2, 1), prime) for factor in factors]
    return vertical, horizontal


def _ranks(matrices: Integers, prime: int) -> Integers:
    rank = len(matrices)
    found = np.zeros((rank, rank), dtype=np.int64)
    rows = (matrices % prime).tolist()
    known: dict[str, int] = {}
    for r in range(rank):
        for s in range(r, rank):
            word = f"{rows[r]}{rows[s]}"
            if word not in known:
                known[word] = matrix_rank(rows[r] + rows[s], prime)
            found[r, s] = found[s, r] = known[word]
    return found
