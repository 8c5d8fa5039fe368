"""Reduction is checked against verification over the field: a valid scheme stays valid where the ring allows it."""

from dataclasses import replace

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import with_tables
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.rings import (
    can_convert,
    convert,
    holding_fields,
    strictest_field,
    with_primitive_rows,
)
from palaestra.apps.matmul.schemes.verification import NotAnAlgorithm, verify
from palaestra.core.errors import UsageError

ALL = tuple(Field)


def in_basis(claim, matrix, inverse, denominator, field):
    """x -> G x, z -> z G^-1 with G^-1 = inverse / denominator."""
    u = (matrix @ claim.u.reshape(-1, 2, 2)).reshape(-1, 4)
    w = (inverse.T @ claim.w.reshape(-1, 2, 2)).reshape(-1, 4)
    return replace(claim, u=u, w=w, field=field, denominators=(1, 1, denominator))


@pytest.fixture
def halves(strassen):
    """Needs 1/2: the basis change has determinant 2."""
    return in_basis(strassen, np.array([[1, 1], [1, -1]]), np.array([[1, 1], [1, -1]]), 2, Field.Q)


@pytest.fixture
def thirds(strassen):
    return in_basis(strassen, np.array([[1, 1], [-1, 2]]), np.array([[2, -1], [1, 1]]), 3, Field.Q)


def test_a_ternary_scheme_holds_over_every_field(strassen):
    assert holding_fields(strassen) == ALL
    assert [verify(convert(strassen, field)).rank for field in ALL] == [7] * 7


def test_a_scheme_with_halves_does_not_hold_modulo_2(halves):
    assert holding_fields(verify(halves).claim) == (Field.Z3, Field.Q, Field.QI)
    assert verify(convert(halves, Field.Z3)).rank == 7
    with pytest.raises(UsageError, match="It holds over z3, q, qi"):
        convert(halves, Field.GF2)


def test_a_scheme_with_thirds_holds_modulo_2_but_not_3(thirds):
    assert holding_fields(verify(thirds).claim) == (Field.GF2, Field.Q, Field.QI)
    assert verify(convert(thirds, Field.GF2)).rank == 7


def test_gaussian_integers_hold_modulo_2_with_i_as_1(gaussian):
    assert holding_fields(verify(gaussian).claim) == (Field.GF2, Field.ZI, Field.QI)
    assert verify(convert(gaussian, Field.GF2)).rank == 7


def test_a_wrong_imaginary_part_is_detected(gaussian):
    for at in range(3):
        parts = [part.copy() for part in gaussian.imaginary]
        parts[at][0, 1] += 1
        with pytest.raises(NotAnAlgorithm):
            verify(replace(gaussian, imaginary=tuple(parts)))


def test_common_factors_of_a_row_move_to_w(strassen):
    scaled = replace(strassen, field=Field.Q, u=strassen.u * 4, v=strassen.v * 3, denominators=(4, 3, 1))
    primitive = with_primitive_rows(scaled)
    assert strictest_field(primitive) is Field.ZT
    assert all((one == other).all() for one, other in zip(primitive.factors, strassen.factors, strict=True))


def test_scalars_that_cancel_only_across_factors_are_found(strassen):
    """Rows of u times 2, rows of w times 1/2: integer as a sum of outer products."""
    scaled = replace(strassen, field=Field.Q, u=strassen.u * 2, denominators=(1, 1, 2))
    assert can_convert(scaled, Field.ZT)
    assert verify(convert(scaled, Field.ZT)).rank == 7


def test_rows_that_vanish_modulo_2_are_removed(strassen):
    """(u, v, w) twice and -1 times: modulo 2 nothing is left of the pair."""
    more = [np.concatenate([factor, factor[:1], factor[:1]]) for factor in strassen.factors]
    more[0] = more[0].copy()
    more[0][7] *= 2
    more[0][8] *= -2
    claim = replace(strassen, field=Field.Z, u=more[0], v=more[1], w=more[2])
    assert verify(claim).rank == 9
    assert verify(convert(claim, Field.GF2)).rank == 7


def test_gf2_does_not_convert_to_numbers(strassen_bits):
    assert holding_fields(strassen_bits) == (Field.GF2,)
    with pytest.raises(UsageError, match="use 'lift'"):
        convert(strassen_bits, Field.Z)


def test_a_real_scheme_over_qi_is_one_over_the_integers(strassen):
    complex_form = convert(strassen, Field.QI)
    assert complex_form.imaginary is not None
    back = convert(complex_form, Field.ZT)
    assert (back.u == strassen.u).all()


def test_complex_tables_round_trip(gaussian):
    again = with_tables(gaussian, gaussian.tables)
    assert all((one == other).all() for one, other in zip(again.imaginary, gaussian.imaginary, strict=True))
