from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import (
    Factorization,
    Format,
    naive_factorization,
    parse_format,
    to_integers,
)
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import UsageError


def multiply_by(claim, a, b):
    """Executes the scheme on Python integers."""
    flat_a, flat_b = a.ravel().tolist(), b.ravel().tolist()
    entries = [0] * claim.format.sizes[2]
    for u, v, w in zip(*(factor.tolist() for factor in claim.factors), strict=True):
        product = sum(c * x for c, x in zip(u, flat_a, strict=True)) * sum(
            c * x for c, x in zip(v, flat_b, strict=True)
        )
        entries = [entry + c * product for entry, c in zip(entries, w, strict=True)]
    return np.array(entries).reshape(claim.format.rows, claim.format.columns)


@pytest.mark.parametrize("sides", [(1, 1, 1), (2, 3, 4), (4, 1, 2)])
def test_the_naive_scheme_equals_numpy(sides):
    claim = naive_factorization(Format(*sides), Field.Z)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, sides[:2]), rng.integers(-9, 9, sides[1:])
    assert claim.rank == np.prod(sides)
    assert (multiply_by(claim, a, b) == a @ b).all()


def test_factors_of_another_shape_are_refused(strassen):
    with pytest.raises(UsageError, match=r"shape \[7, 4\]"):
        Factorization(Format(2, 2, 3), Field.Z, *strassen.factors)


def test_factors_are_read_only(strassen):
    with pytest.raises(ValueError, match="read-only"):
        strassen.u[0, 0] = 5


@pytest.mark.parametrize(
    "values", [[[0.5]], [[1e30]], [[float("nan")]], [["1"]], [[1], [1, 2]], [1, 2], [[True]], [[None]]]
)
def test_fractional_coefficients_are_refused(values):
    with pytest.raises(UsageError):
        to_integers(values)


def test_integral_floats_are_accepted():
    assert to_integers([[1.0, -2.0]]).tolist() == [[1, -2]]


def test_a_format_round_trips_as_text():
    assert parse_format("3x4x5") == Format(3, 4, 5)
    assert str(parse_format(" 3X4X5 ")) == "3x4x5"


def test_sizes_are_the_entries_of_the_three_matrices():
    assert Format(3, 4, 5).sizes == (12, 20, 15)
    assert Format(3, 4, 5).naive_rank == 60
    assert Format(5, 3, 4).ascending == Format(3, 4, 5)


@pytest.mark.parametrize("text", ["3x3", "0x2x2", "3x3x99", "3x3x3x3", "axbxc", "", "-1x2x2", "2x2x2\n2x2x2", "²x2x2"])
def test_invalid_formats_are_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_format(text)
    assert caught.value.hint
    assert text in caught.value.message or "side" in caught.value.message
