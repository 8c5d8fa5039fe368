"""Symmetries are computed here from their definition, with random matrices."""

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import Factorization, Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.verification import verify

SHEAR = np.array([[1, 1], [0, 1]])
SHEAR_BACK = np.array([[1, -1], [0, 1]])
SWAP = np.array([[0, 1], [1, 0]])


def sandwiched(claim, left, left_back, right, right_back):
    """(P A)(B) with C' = P C, and B R likewise: u -> P^T u, w -> P^-1 w, v -> v R^T, w -> w R^-1."""
    u = np.einsum("ij,rjk->rik", left.T, claim.u.reshape(-1, 2, 2))
    v = np.einsum("rij,jk->rik", claim.v.reshape(-1, 2, 2), right.T)
    w = np.einsum("ij,rjk,kl->ril", left_back, claim.w.reshape(-1, 2, 2), right_back)
    parts = [part.reshape(-1, 4) % 2 if claim.field is Field.GF2 else part.reshape(-1, 4) for part in (u, v, w)]
    return Factorization(claim.format, claim.field if claim.field is Field.GF2 else Field.Z, *parts)


def transposed(claim):
    """(A B)^T = B^T A^T"""
    u, v, w = (factor.reshape(-1, 2, 2).transpose(0, 2, 1).reshape(-1, 4).copy() for factor in claim.factors)
    return Factorization(claim.format, claim.field, v, u, w)


def cyclic(claim):
    """The trace of A B C is that of B C A."""
    z = claim.w.reshape(-1, 2, 2).transpose(0, 2, 1).reshape(-1, 4).copy()
    x = claim.u.reshape(-1, 2, 2).transpose(0, 2, 1).reshape(-1, 4).copy()
    return Factorization(claim.format, claim.field, claim.v, z, x)


def shuffled(claim):
    order = np.random.default_rng(3).permutation(claim.rank)
    return Factorization(claim.format, claim.field, *(factor[order] for factor in claim.factors))


def other_views(claim):
    yield shuffled(claim)
    yield transposed(claim)
    yield cyclic(claim)
    yield sandwiched(claim, SHEAR, SHEAR_BACK, SWAP, SWAP)
    yield shuffled(cyclic(transposed(sandwiched(claim, SWAP, SWAP, SHEAR, SHEAR_BACK))))


@pytest.mark.parametrize("which", ["strassen", "strassen_bits"])
def test_the_fingerprint_is_invariant_under_symmetries(which, request):
    claim = request.getfixturevalue(which)
    marks = {fingerprint(verify(view)) for view in [claim, *other_views(claim)]}
    assert len(marks) == 1


def test_different_formats_fields_and_ranks_have_different_fingerprints(strassen, strassen_bits):
    school = naive_factorization(Format(2, 2, 2), Field.ZT)
    marks = [fingerprint(verify(claim)) for claim in (strassen, strassen_bits, school)]
    assert len(set(marks)) == 3


def test_the_order_of_sides_does_not_matter():
    marks = {
        fingerprint(verify(naive_factorization(Format(*sides), Field.Z))) for sides in [(2, 3, 4), (4, 2, 3), (4, 3, 2)]
    }
    assert len(marks) == 1
