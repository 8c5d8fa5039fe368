from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.matmul.schemes.fields import (
    Echelon,
    Field,
    invert_matrix,
    matmul,
    matrix_rank,
    parse_field,
)
from palaestra.core.errors import UsageError


def test_aliases_of_fields_are_accepted():
    assert parse_field("GF2") is Field.GF2
    assert parse_field("ternary") is Field.ZT
    assert all(field.meaning for field in Field)


def test_an_unknown_field_gets_a_suggestion():
    with pytest.raises(UsageError, match="Did you mean 'ternary'"):
        parse_field("ternery")


PRIME = 10_007


@pytest.mark.parametrize("seed", range(5))
def test_the_rank_matches_numpy(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 3, (5, 2)) @ rng.integers(-2, 3, (2, 6))
    assert matrix_rank(matrix.tolist(), PRIME) == np.linalg.matrix_rank(matrix)


def test_modulo_2_ranks_are_smaller():
    assert matrix_rank([[1, 1], [1, -1]], 2) == 1
    assert matrix_rank([[1, 1], [1, -1]], PRIME) == 2


@pytest.mark.parametrize("prime", [2, PRIME])
def test_the_kernel_satisfies_all_equations_and_has_the_right_size(prime):
    equations = [[1, 1, 0, 1], [0, 1, 1, 1], [1, 2, 1, 2]]
    echelon = Echelon(prime)
    assert [echelon.add(row) for row in equations] == [True, True, False]
    kernel = echelon.kernel(4)
    assert len(kernel) == matrix_rank(kernel, prime) == 2
    assert all(sum(a * b for a, b in zip(row, one, strict=True)) % prime == 0 for row in equations for one in kernel)


def test_a_copy_is_independent():
    first = Echelon(2)
    second = first.copy()
    second.add([1, 0])
    assert (first.rank, second.rank) == (0, 1)


def test_products_match_numpy():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, PRIME, (2, 3)), rng.integers(0, PRIME, (3, 4))
    assert matmul(a.tolist(), b.tolist(), PRIME) == (a @ b % PRIME).tolist()


@pytest.mark.parametrize(("prime", "matrix"), [(2, [[1, 1, 0], [0, 1, 1], [0, 0, 1]]), (PRIME, [[0, 3], [2, 5]])])
def test_a_matrix_times_its_inverse_is_the_identity(prime, matrix):
    side = len(matrix)
    assert matmul(matrix, invert_matrix(matrix, prime), prime) == np.eye(side, dtype=int).tolist()
