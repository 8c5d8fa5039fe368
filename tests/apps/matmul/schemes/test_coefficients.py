from fractions import Fraction

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.coefficients import (
    claim_from_arrays,
    claim_from_rows,
    format_number,
    parse_coefficient,
)
from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import UsageError

HALF = Fraction(1, 2)
SMALL = Format(1, 1, 2)  # u [rank, 1], v and w [rank, 2]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (-3, (-3, 0)),
        ("-3/2", (Fraction(-3, 2), 0)),
        (0.125, (Fraction(1, 8), 0)),
        ("0.5", (HALF, 0)),
        ("i", (0, 1)),
        ("-I", (0, -1)),
        ("1/2 + I/2", (HALF, HALF)),
        ("1/2-1/2*I", (HALF, -HALF)),
        ("2j", (0, 2)),
    ],
)
def test_coefficients_are_read_exactly(value, number):
    assert parse_coefficient(value) == number
    assert parse_coefficient(format_number(parse_coefficient(value))) == number


@pytest.mark.parametrize("value", ["", "x", "1/0", "1 2", "1e5", "--1", True, None, [1], 1 / 3, "9" * 100])
def test_other_values_are_refused(value):
    with pytest.raises(UsageError):
        parse_coefficient(value)


def test_common_denominators_end_up_in_w():
    claim = claim_from_rows(SMALL, [[["1/2"], [2]], [[1, 0], [0, "1/3"]], [[1, 0], [0, 1]]])
    assert (claim.field, claim.denominators) == (Field.Q, (1, 1, 6))
    assert claim.u.tolist() == [[1], [1]]
    assert claim.v.tolist() == [[1, 0], [0, 1]]
    assert claim.w.tolist() == [[3, 0], [0, 4]]


def test_imaginary_parts_make_a_claim_over_qi():
    claim = claim_from_rows(SMALL, [[["i"]], [[1, "1/2*i"]], [[1, 1]]])
    assert claim.field is Field.QI
    assert [part.tolist() for part in claim.imaginary] == [[[1]], [[0, 1]], [[0, 0]]]
    assert (claim.v.tolist(), claim.denominators) == ([[2, 0]], (1, 1, 2))


def test_complex_arrays_are_read_with_their_halves():
    tables = [np.array([[0.5j]]), np.array([[1, 1j]]), np.array([[1, 0.5]])]
    claim = claim_from_arrays(SMALL, tables)
    assert (claim.field, claim.denominators) == (Field.QI, (2, 1, 2))
    assert claim.imaginary[0].tolist() == [[1]]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([[[1]], [[1, 0], [0, 1]], [[1, 0]]], "different numbers of rows"),
        ([[[1, 1]], [[1, 0]], [[1, 0]]], "1 columns"),
        ([[[1 << 60]], [[1, 0]], [[1, 3]]], None),
        ([[["1/1000000007"]], [[1, 0]], [[1, 0]]], "common denominator"),
        ([[[1]], [[1, 3 << 60]], [[1, 0]]], "coefficient above"),
        ([[[[1]]], [[1, 0]], [[1, 0]]], "Invalid coefficient"),
        ([[], [], []], "0 rows"),
    ],
)
def test_damaged_tables_are_refused(tables, message):
    with pytest.raises(UsageError, match=message or "above"):
        claim_from_rows(SMALL, tables)


def test_floating_point_thirds_are_refused_with_advice():
    with pytest.raises(UsageError, match="write fractions as text"):
        claim_from_arrays(SMALL, [np.array([[1 / 3]]), np.array([[1.0, 0]]), np.array([[1.0, 0]])])
    with pytest.raises(UsageError, match="not finite"):
        claim_from_arrays(SMALL, [np.array([[np.nan]]), np.array([[1.0, 0]]), np.array([[1.0, 0]])])
