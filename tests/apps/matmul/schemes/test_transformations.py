from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.transformations import (
    change_back,
    change_bases,
    from_trace_form,
    permute_sides,
    random_basis,
    standard_basis,
    trace_form,
)
from palaestra.apps.matmul.schemes.verification import product_tensor, verify
from palaestra.core.errors import UsageError


def test_the_scheme_is_the_trace_of_a_product_of_three():
    x, y, z = trace_form(naive_factorization(Format(2, 3, 4), Field.Z))
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-5, 5, shape) for shape in ((2, 3), (3, 4), (4, 2)))
    forms = [(factor * matrix).sum(axis=(1, 2)) for factor, matrix in ((x, a), (y, b), (z, c))]
    assert np.prod(forms, axis=0).sum() == sum(
        a[i, j] * b[j, k] * c[k, i] for i in range(2) for j in range(3) for k in range(4)
    )


@pytest.mark.parametrize("sides", list(permutations((2, 3, 4))))
def test_a_scheme_with_permuted_sides_is_valid(sides):
    claim = naive_factorization(Format(2, 3, 4), Field.Z)
    assert verify(permute_sides(claim, Format(*sides))).format == Format(*sides)


def test_permuting_to_different_sides_is_refused():
    with pytest.raises(UsageError):
        permute_sides(naive_factorization(Format(2, 3, 4), Field.Z), Format(2, 3, 5))


def test_permuting_back_restores_the_scheme(strassen):
    back = from_trace_form(*trace_form(strassen))
    assert all((one == other).all() for one, other in zip(back, strassen.factors, strict=True))


@pytest.mark.parametrize("field", [Field.GF2, Field.ZT])
@pytest.mark.parametrize("size", [1, 2, 4, 9])
def test_a_basis_and_its_inverse_cancel(field, size):
    rng = np.random.default_rng(5)
    for _ in range(20):
        basis = random_basis(size, field, rng)
        product = basis.matrix @ basis.inverse
        assert ((product % 2 if field is Field.GF2 else product) == np.eye(size)).all()


def test_every_basis_over_gf2_is_sampled():
    rng = np.random.default_rng(1)
    drawn = {random_basis(2, Field.GF2, rng).matrix.tobytes() for _ in range(300)}
    assert len(drawn) == 6  # (4 - 1) * (4 - 2) invertible matrices of two bits


def test_the_standard_basis_changes_nothing(strassen):
    tensor = product_tensor(strassen.format)
    bases = tuple(standard_basis(4) for _ in range(3))
    assert (change_bases(tensor, bases, Field.ZT) == tensor).all()


def test_changing_bases_and_back_restores_the_factors(strassen):
    rng = np.random.default_rng(2)
    basis = random_basis(4, Field.ZT, rng)
    moved = strassen.u @ basis.matrix.T
    assert (moved != strassen.u).any()
    assert (change_back(moved, basis, Field.ZT) == strassen.u).all()
