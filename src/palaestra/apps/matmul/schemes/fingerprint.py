"""A hash that is invariant under all symmetries of a scheme.

Symmetries: order of rows, signs within a row, changes of basis of the three spaces (sandwiching), cyclic rotation and
transposition. They preserve the ranks of factors, alone and of two factors stacked horizontally or vertically. Equal
fingerprints are a strong hint of equivalence, not a proof; see `canonical_form` and `symmetry`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.transformations import STRAIGHT, trace_form

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization, Format, Integers
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization

BIG_PRIME = 2_147_483_647  # replaces the integers and the rationals
GAUSSIAN_PRIME = 2_147_483_629  # has a square root of -1, which replaces i
LETTERS = 16
MAX_COMPARED_ROWS = 400  # above it rows are not compared in pairs


def prime_of(field: Field) -> int:
    return field.characteristic or (GAUSSIAN_PRIME if field.is_complex else BIG_PRIME)


def family_of(field: Field) -> str:
    """Fields whose schemes can be equivalent: a scheme over zt is also one over z and q."""
    if field.characteristic:
        return str(field)
    return "zi" if field.is_complex else "z"


def residue_form(claim: Factorization) -> Factors:
    """The trace form modulo `prime_of` the field, without denominators; i is a square root of -1."""
    prime = prime_of(claim.field)
    if claim.imaginary is None:
        return _modulo(trace_form(claim), prime)
    u, v, w = (real + _root_of_minus_1() * other for real, other in zip(claim.factors, claim.imaginary, strict=True))
    real = replace(claim, field=Field.Q, imaginary=None, u=u % prime, v=v % prime, w=w % prime)
    return _modulo(trace_form(real), prime)


def _modulo(factors: Factors, prime: int) -> Factors:
    x, y, z = (factor % prime for factor in factors)
    return x, y, z


@lru_cache(maxsize=1)
def _root_of_minus_1() -> int:
    roots = (pow(base, (GAUSSIAN_PRIME - 1) // 4, GAUSSIAN_PRIME) for base in range(2, 100))
    return next(root for root in roots if root * root % GAUSSIAN_PRIME == GAUSSIAN_PRIME - 1)


def fingerprint(proved: VerifiedFactorization) -> str:
    claim = proved.claim
    if claim.rank > MAX_COMPARED_ROWS:
        return row_digest(proved)
    wanted = claim.format.ascending.sides
    words = [repr(sorted(_refined(pairs))) for _, sides, pairs in pair_views(proved) if sides == wanted]
    text = f"{claim.format.ascending} {family_of(claim.field)} {claim.rank} {min(words)}"
    return hashlib.sha256(text.encode()).hexdigest()[:LETTERS]


def row_digest(proved: VerifiedFactorization) -> str:
    """For very large schemes: invariant under the order of rows and scalars within them only."""
    prime = prime_of(proved.field)
    rows = np.concatenate([_normalized(factor, prime) for factor in residue_form(proved.claim)], axis=1)
    ordered = rows[np.lexsort(rows.T[::-1])]
    text = f"{proved.format} {family_of(proved.field)} {proved.rank}"
    return hashlib.sha256(text.encode() + ordered.astype("<i8").tobytes()).hexdigest()[:LETTERS]


def _normalized(factor: Integers, prime: int) -> Integers:
    """Each row divided by its first nonzero entry, [rank, entries]."""
    flat = factor.reshape(len(factor), -1)
    first = flat[np.arange(len(flat)), (flat != 0).argmax(axis=1)]
    inverse = np.array([pow(int(value), -1, prime) for value in first])
    normalized: Integers = flat * inverse[:, None] % prime
    return normalized


Factors = tuple["Integers", "Integers", "Integers"]
Colours = list[str]
View = tuple[tuple[int, ...], tuple[int, ...], "Integers"]


def row_colours(proved: VerifiedFactorization) -> list[tuple[tuple[int, ...], Colours]]:
    """For each of the six orders of the factors: the sides in that order, and a colour of each row."""
    return [(sides, _refined(pairs)) for _, sides, pairs in pair_views(proved)]


@lru_cache(maxsize=8)  # fingerprint and canonical form of a scheme share it
def pair_views(proved: VerifiedFactorization) -> tuple[View, ...]:
    """The six orders of the factors, the sides in that order, and the ranks of pairs of rows [rank, rank, 6]."""
    vertical, horizontal = _pair_ranks(residue_form(proved.claim), prime_of(proved.field))
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


def _pair_ranks(factors: Factors, prime: int) -> tuple[list[Integers], list[Integers]]:
    """Ranks of the matrices of rows r and s stacked vertically and horizontally; each [rank, rank]."""
    vertical = [_ranks(factor, prime) for factor in factors]
    horizontal = [_ranks(factor.transpose(0, 2, 1), prime) for factor in factors]
    return vertical, horizontal


CHUNK = 1 << 13  # pairs at a time


def _ranks(matrices: Integers, prime: int) -> Integers:
    """The rank of each pair of matrices stacked, [rank, rank]; equal pairs are computed once."""
    different, places = np.unique(matrices.reshape(len(matrices), -1), axis=0, return_inverse=True)
    different = different.reshape(-1, *matrices.shape[1:])
    first, second = np.triu_indices(len(different))
    parts = [
        ranks_modulo(np.concatenate([different[first[at : at + CHUNK]], different[second[at : at + CHUNK]]], 1), prime)
        for at in range(0, len(first), CHUNK)
    ]
    table = np.zeros((len(different), len(different)), dtype=np.int64)
    table[first, second] = table[second, first] = np.concatenate(parts)
    places = places.reshape(-1)
    return table[np.ix_(places, places)]


def ranks_modulo(matrices: Integers, prime: int) -> Integers:
    """The rank modulo a prime below 2^31 of each matrix; [count, rows, columns] -> [count]."""
    work = matrices if matrices.shape[1] >= matrices.shape[2] else matrices.transpose(0, 2, 1)
    work = work % prime
    rows = np.arange(work.shape[1])
    ranks = np.zeros(len(work), dtype=np.int64)
    for column in range(work.shape[2]):
        possible = (work[:, :, column] != 0) & (rows >= ranks[:, None])
        found = np.flatnonzero(possible.any(axis=1))
        if not len(found):
            continue
        pivots, places = possible[found].argmax(axis=1), ranks[found]
        pivot_rows = work[found, pivots]
        work[found, pivots] = work[found, places]
        work[found, places] = pivot_rows
        factors = work[found, :, column] * (rows > places[:, None])
        scaled = work[found] * pivot_rows[:, column][:, None, None]  # a row times a number keeps the rank
        work[found] = (scaled - factors[:, :, None] * pivot_rows[:, None, :]) % prime
        ranks[found] += 1
    return ranks
