import numpy as np
import pytest

from palaestra.apps.matmul.straight_line import (
    evaluate,
    plain_program,
    scheme_programs,
    shortest_program,
    transposed,
)

DICE = np.random.default_rng(1)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (4, 9), (20, 6)])
def test_a_program_does_what_its_table_says(shape):
    table = DICE.integers(-2, 3, shape)
    values = DICE.integers(-50, 50, (shape[1], 7))
    program = shortest_program(table, 3)
    assert (evaluate(program, values) == table @ values).all()
    assert program.additions <= plain_program(table).additions


def test_a_program_turned_around_does_what_the_transposed_table_says():
    table = DICE.integers(-1, 2, (6, 5))
    values = DICE.integers(-50, 50, (6, 3))
    turned = transposed(shortest_program(table, 2), 6)
    assert (evaluate(turned, values) == table.T @ values).all()


def test_the_shortest_program_is_right_also_where_it_is_one_turned_around():
    """For about one table of six the turned one is shorter."""
    dice = np.random.default_rng(3)
    for _ in range(60):
        table = dice.integers(-1, 2, dice.integers(2, 10, 2))
        values = dice.integers(-50, 50, (table.shape[1], 3))
        program = shortest_program(table, 3)
        assert program.inputs == table.shape[1]
        assert (evaluate(program, values) == table @ values).all()


def test_turning_adds_rows_minus_columns():
    table = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]])  # every row and column has something
    program = plain_program(table)
    assert transposed(program, 3).additions == program.additions + 3 - 4


def test_sums_that_differ_by_a_factor_are_made_once():
    table = np.array([[1, 2], [-2, -4], [3, 6]])
    assert shortest_program(table, 1).additions == 1


def test_the_same_tries_give_the_same_program(strassen):
    assert scheme_programs(strassen) == scheme_programs(strassen)


def test_an_empty_row_is_nothing():
    program = shortest_program(np.array([[0, 0], [1, -1]]), 1)
    assert evaluate(program, np.array([[5], [3]])).tolist() == [[0], [2]]
