"""Reduces the additions of a scheme over zt at the same rank.

Alternates simulated annealing on the flip graph towards few nonzero coefficients with elementary changes of basis. The
objective is the number of additions after common-subexpression elimination.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.bit_masks import from_signed_masks, to_signed_masks
from palaestra.apps.matmul.schemes.composition import find_tensor_products
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.known_ranks import known_additions
from palaestra.apps.matmul.schemes.straight_line import count_additions
from palaestra.apps.matmul.schemes.transformations import from_trace_form, trace_form
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify
from palaestra.apps.matmul.search.flip_search import derive_seed
from palaestra.apps.matmul.search.flip_walk import SignedWalk, resume_ternary_walk

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization, Integers

TEMPERATURES = (2.0, 1.0, 0.6, 0.4, 0.3, 0.2)  # in coefficients
STEPS = 200_000  # flips at each temperature
PLUS_PERIOD = 50_000
BASES = 60  # basis changes tried for each scheme
FEW_TRIES, MANY_TRIES = 1, 24  # tries of the CSE


def minimize_additions(proved: VerifiedFactorization, seconds: float, seed: int) -> VerifiedFactorization:
    """An equally ranked scheme with at most as many additions, verified; stops early at the best known number."""
    if proved.field is not Field.ZT:
        return proved
    deadline, iteration = time.monotonic() + seconds, 0
    best, count = proved.claim, count_additions(proved.claim, MANY_TRIES, deadline).eliminated
    best_known = known_additions(proved.format, proved.field) or 0
    while count > best_known and time.monotonic() < deadline:
        rng = random.Random(derive_seed(seed, iteration, 0))  # noqa: S311 - not for cryptography
        origin = proved.claim if iteration % 2 == 0 else best
        claim = _improve_bases(_anneal(origin, derive_seed(seed, iteration, 1)), rng, deadline)
        fewer = count_additions(claim, MANY_TRIES, deadline).eliminated
        if claim.rank <= best.rank and (claim.rank, fewer) < (best.rank, count):
            best, count = claim, fewer
        iteration += 1
    return verify(best)


def find_fewest_additions(
    proved: VerifiedFactorization, known: list[tuple[str, VerifiedFactorization]], seconds: float, seed: int
) -> tuple[VerifiedFactorization, tuple[str, ...]]:
    """The scheme with fewest additions from `minimize_additions` or tensor products of known schemes; its parents."""
    if proved.field is not Field.ZT:
        return proved, ()
    deadline = time.monotonic() + seconds
    best = minimize_additions(proved, seconds, seed)
    parents: tuple[str, ...] = ()
    count = count_additions(best.claim, MANY_TRIES, deadline).eliminated
    signed = [(mark, one.claim) for mark, one in known if one.field is Field.ZT]
    for claim, i, j in find_tensor_products(proved.format, [one for _, one in signed]):
        fewer = count_additions(claim, FEW_TRIES).eliminated
        if (claim.rank, fewer) < (best.rank, count):
            best, count, parents = verify(claim), fewer, tuple(sorted({signed[i][0], signed[j][0]}))
    return best, parents


def _anneal(claim: Factorization, seed: int) -> Factorization:
    """The scheme with fewest nonzero coefficients of an annealing walk; the claim itself without a compiled walk."""
    masks = to_signed_masks(claim)
    walk: SignedWalk | None = resume_ternary_walk(masks, masks, seed, 0)
    if walk is None:
        return claim
    for temperature in TEMPERATURES:
        walk.run(STEPS, PLUS_PERIOD, 1, 0, temperature)
    return from_signed_masks(walk.best, claim.format)


def _improve_bases(claim: Factorization, rng: random.Random, deadline: float) -> Factorization:
    """Random elementary basis changes, accepted if they do not add additions."""
    count = count_additions(claim, FEW_TRIES).eliminated
    for _ in range(BASES):
        if time.monotonic() >= deadline:
            break
        other = _change_one_basis(claim, rng)
        if other.largest_coefficient > 1:
            continue
        fewer = count_additions(other, FEW_TRIES).eliminated
        if fewer <= count:
            claim, count = other, fewer
    return claim


def _change_one_basis(claim: Factorization, rng: random.Random) -> Factorization:
    """x -> G x H^-1, y -> H y K^-1, z -> K z G^-1, where one of G, H, K adds a row to another."""
    at = rng.randrange(3)
    side = claim.format.sides[at]
    if side < 2:
        return claim
    basis, inverse = np.eye(side, dtype=np.int64), np.eye(side, dtype=np.int64)
    i, j = rng.sample(range(side), 2)
    sign = rng.choice((1, -1))
    basis[i, j], inverse[i, j] = sign, -sign
    factors: list[Integers] = list(trace_form(claim))
    factors[at] = basis @ factors[at]
    factors[(at + 2) % 3] = factors[(at + 2) % 3] @ inverse
    x, y, z = factors
    u, v, w = from_trace_form(x, y, z)
    return replace(claim, u=u, v=v, w=w)
