from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.matmul.benchmark.big_integers import BigIntegerExecutor, number_steps
from palaestra.apps.matmul.schemes.composition import join_schemes
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.straight_line import Program, find_short_program, naive_program
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.core.errors import UsageError


def long_matrix(rows, columns, seed):
    rng = np.random.default_rng(seed)
    made = np.array([int.from_bytes(rng.bytes(64), "little", signed=True) for _ in range(rows * columns)], object)
    return made.reshape(rows, columns)


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("shape", [(8, 8, 8), (3, 5, 2), (1, 1, 1)])
def test_long_integers_are_multiplied_exactly(strassen, levels, shape):
    rows, inner, columns = shape
    a, b = long_matrix(rows, inner, 1), long_matrix(inner, columns, 2)
    made = BigIntegerExecutor(verify(strassen))(a, b, levels)
    wanted = [[sum(a[i, k] * b[k, j] for k in range(inner)) for j in range(columns)] for i in range(rows)]
    assert made.tolist() == wanted


def test_sides_may_differ_and_the_leaf_is_naive(strassen):
    wide = join_schemes(strassen, naive_factorization(Format(2, 2, 1), Field.ZT), "columns")
    a, b = long_matrix(12, 8, 3), long_matrix(8, 27, 4)
    for levels in (1, 2):
        assert (BigIntegerExecutor(verify(wide))(a, b, levels) == np.matmul(a, b)).all()


def test_a_scheme_over_gf2_is_refused(strassen_bits):
    with pytest.raises(UsageError, match="modulo 2 only"):
        BigIntegerExecutor(verify(strassen_bits))


TABLE = np.array([[2, -3], [0, 0], [-1, 1], [-1, -1], [0, 1], [-1, 0]])
WANTED = [2 * 10**30 - 21, 0, 7 - 10**30, -(10**30) - 7, 7, -(10**30)]


@pytest.mark.parametrize("program", [naive_program(TABLE), find_short_program(TABLE, 3)])
def test_all_coefficients_are_applied(program):
    steps = number_steps(program)
    assert steps.of_numbers([10**30, 7]) == WANTED
    assert steps.of_lists([[10**30, 1], [7, 0]]) == [
        [one, other] for one, other in zip(WANTED, TABLE[:, 0], strict=True)
    ]


def test_strassens_sums_are_single_additions_and_subtractions(strassen):
    steps = number_steps(find_short_program(strassen.u, 1)).steps
    assert {operation.__name__ for operation, _, _ in steps} == {"add", "sub"}
    assert len(steps) == 5


def test_an_input_needs_no_step():
    assert number_steps(Program(3, (), (((2, 1),), ((0, 1),)))).outputs == (2, 0)
    assert number_steps(Program(3, (), (((2, 1),), ((0, 1),)))).steps == ()
