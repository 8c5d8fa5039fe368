from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.matmul.benchmark.c_source import computed_outputs
from palaestra.apps.matmul.schemes.factorization import Factorization, Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.straight_line import (
    count_additions,
    evaluate,
    find_short_program,
    naive_program,
    scheme_programs,
    transposed,
    without_negated_factors,
)

DICE = np.random.default_rng(1)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (4, 9), (20, 6)])
def test_a_program_computes_its_table(shape):
    table = DICE.integers(-2, 3, shape)
    values = DICE.integers(-50, 50, (shape[1], 7))
    program = find_short_program(table, 3)
    assert (evaluate(program, values) == table @ values).all()
    assert program.additions <= naive_program(table).additions


def test_a_transposed_program_computes_the_transposed_table():
    table = DICE.integers(-1, 2, (6, 5))
    values = DICE.integers(-50, 50, (6, 3))
    program = transposed(find_short_program(table, 2), 6)
    assert (evaluate(program, values) == table.T @ values).all()


def test_short_programs_are_correct_in_both_directions():
    """For about one table in six the transposed direction is shorter."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        table = rng.integers(-1, 2, rng.integers(2, 10, 2))
        values = rng.integers(-50, 50, (table.shape[1], 3))
        program = find_short_program(table, 3)
        assert program.inputs == table.shape[1]
        assert (evaluate(program, values) == table @ values).all()


def test_transposition_adds_rows_minus_columns():
    table = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]])  # no row or column is zero
    program = naive_program(table)
    assert transposed(program, 3).additions == program.additions + 3 - 4


def test_sums_that_differ_by_a_factor_are_shared():
    table = np.array([[1, 2], [-2, -4], [3, 6]])
    assert find_short_program(table, 1).additions == 1


def test_programs_are_deterministic_for_a_number_of_tries(strassen):
    assert scheme_programs(strassen) == scheme_programs(strassen)


def test_an_empty_row_is_zero():
    program = find_short_program(np.array([[0, 0], [1, -1]]), 1)
    assert evaluate(program, np.array([[5], [3]])).tolist() == [[0], [2]]


# Winograd's form of seven products; columns 11, 12, 21, 22
A = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, -1, -1], [0, 0, 0, 1], [0, 0, 1, 1], [-1, 0, 1, 1], [1, 0, -1, 0]]
B = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, -1, -1, 1], [-1, 1, 0, 0], [1, -1, 0, 1], [0, -1, 0, 1]]
C = [[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0], [0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1]]


def test_the_naive_scheme_adds_only_products():
    counted = count_additions(naive_factorization(Format(2, 3, 4), Field.Z))
    assert (counted.naive, counted.eliminated) == (2 * 4 * 2, 2 * 4 * 2)


def test_strassen_takes_eighteen_additions(strassen):
    assert count_additions(strassen).naive == 18


def test_winograds_form_takes_fifteen_after_cse():
    u, v, w = (np.array(rows, dtype=np.int64) for rows in (A, B, C))
    counted = count_additions(Factorization(Format(2, 2, 2), Field.ZT, u, v, w))
    assert counted.naive == 24
    assert counted.eliminated == 15


def test_equal_sums_are_shared():
    u = np.array([[1, 1], [1, 1], [-1, -1]], dtype=np.int64)
    ones = np.ones((3, 2), dtype=np.int64)
    claim = Factorization(Format(1, 2, 1), Field.Z, u, ones, np.ones((3, 1), dtype=np.int64))
    assert count_additions(claim).eliminated == 1 + 1 + 2


SIGNS = np.array([1, 1, -1, -1, 1, -1, 1])  # of Strassen's rows; the third and fourth have factors of one block


def with_other_signs(strassen, left, right):
    """The same scheme with other signs of its rows."""
    signs = (left[:, None], right[:, None], (left * right)[:, None])
    u, v, w = (factor * sign for factor, sign in zip(strassen.factors, signs, strict=True))
    return Factorization(strassen.format, strassen.field, u, v, w)


def tensor_product(programs, a, b):
    products = evaluate(programs.left, a.reshape(4)) * evaluate(programs.right, b.reshape(4))
    return evaluate(programs.product, products).reshape(2, 2)


def test_moving_negations_preserves_the_product(strassen):
    a, b = np.array([[3, -1], [4, 7]]), np.array([[2, 5], [-6, 9]])
    ones = np.ones(7, dtype=np.int64)
    for left, right in ((ones, ones), (SIGNS, ones), (ones, -ones), (SIGNS, SIGNS), (-SIGNS, SIGNS)):
        programs = scheme_programs(with_other_signs(strassen, left, right))
        assert (tensor_product(without_negated_factors(programs), a, b) == a @ b).all()


def test_a_negated_block_is_not_copied(strassen):
    programs = scheme_programs(with_other_signs(strassen, SIGNS, np.ones(7, dtype=np.int64)))
    assert len(computed_outputs(programs.left)) == 7
    assert len(computed_outputs(without_negated_factors(programs).left)) == 5


def test_moving_negations_preserves_the_additions(strassen):
    programs = scheme_programs(with_other_signs(strassen, SIGNS, -SIGNS))
    assert without_negated_factors(programs).additions == programs.additions
