from dataclasses import replace

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import Factorization, Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import (
    NotAnAlgorithm,
    VerifiedFactorization,
    product_tensor,
    residual,
    verify,
)


def changed(claim, name, row, column, value):
    factor = getattr(claim, name).copy()
    factor[row, column] = value
    return replace(claim, **{name: factor})


def test_strassen_is_valid_over_the_integers_and_gf2(strassen, strassen_bits):
    assert verify(strassen).rank == 7
    assert verify(strassen_bits).field is Field.GF2


def test_a_scheme_over_gf2_is_not_valid_over_the_integers(strassen_bits):
    with pytest.raises(NotAnAlgorithm, match="residual has"):
        verify(replace(strassen_bits, field=Field.Z))


@pytest.mark.fault("V3")
def test_all_of_a_thousand_single_wrong_entries_are_detected(strassen):
    claims = [strassen, naive_factorization(Format(2, 3, 2), Field.Z), naive_factorization(Format(3, 3, 3), Field.Z)]
    rng = np.random.default_rng(1)
    for attempt in range(1000):
        claim = replace(claims[attempt % 3], field=Field.Z)
        name = "uvw"[rng.integers(3)]
        factor = getattr(claim, name)
        row, column = (int(rng.integers(size)) for size in factor.shape)
        wrong = changed(claim, name, row, column, int(factor[row, column]) + int(rng.choice([-2, -1, 1, 2])))
        with pytest.raises(NotAnAlgorithm):
            verify(wrong)


@pytest.mark.fault("V3")
def test_every_flipped_bit_is_detected_over_gf2(strassen_bits):
    for name in "uvw":
        for row in range(7):
            for column in range(4):
                with pytest.raises(NotAnAlgorithm):
                    verify(changed(strassen_bits, name, row, column, 1 - getattr(strassen_bits, name)[row, column]))


def test_an_empty_scheme_is_refused():
    empty = np.zeros((0, 4), dtype=np.int64)
    with pytest.raises(NotAnAlgorithm, match="8 nonzero entries"):
        verify(Factorization(Format(2, 2, 2), Field.Z, empty, empty, empty))


def test_zero_rows_are_refused(strassen):
    u, v, w = (np.concatenate([factor, np.zeros((1, 4), dtype=np.int64)]) for factor in strassen.factors)
    with pytest.raises(NotAnAlgorithm, match="1 of 8 rows"):
        verify(Factorization(strassen.format, Field.Z, u, v, w))


def test_coefficients_must_be_those_of_the_field(strassen):
    with pytest.raises(NotAnAlgorithm, match="0 or 1"):
        verify(replace(strassen, field=Field.GF2))
    doubled = replace(strassen, u=strassen.u * 2, denominators=(2, 1, 1))
    with pytest.raises(NotAnAlgorithm, match="-1, 0 or 1"):
        verify(replace(doubled, field=Field.ZT))
    with pytest.raises(NotAnAlgorithm, match="Denominators are not allowed"):
        verify(replace(doubled, field=Field.Z))
    assert verify(replace(doubled, field=Field.Q)).rank == 7


def test_sums_too_large_for_64_bits_are_still_exact(strassen):
    """2^21 cubed is 2^63: it would wrap, and wrapped sums could cancel."""
    big = replace(strassen, **{name: getattr(strassen, name) << 22 for name in "uvw"}, field=Field.Q)
    assert verify(replace(big, denominators=(1 << 22,) * 3)).rank == 7
    with pytest.raises(NotAnAlgorithm):
        verify(replace(big, denominators=(1 << 22, 1 << 22, 1)))


def test_the_tensor_computes_the_matrix_product():
    tensor = product_tensor(Format(2, 3, 4))
    rng = np.random.default_rng(2)
    a, b = rng.integers(-5, 5, (2, 3)), rng.integers(-5, 5, (3, 4))
    assert (np.einsum("ijk,i,j->k", tensor, a.ravel(), b.ravel()).reshape(2, 4) == a @ b).all()
    assert not residual(naive_factorization(Format(2, 3, 4), Field.Z)).any()


def test_only_verify_creates_verified_factorizations(strassen):
    with pytest.raises(TypeError, match="only verify"):
        VerifiedFactorization(strassen, object())
