import numpy as np
import pytest

from palaestra.apps.matmul.number_steps import number_steps
from palaestra.apps.matmul.straight_line import Program, plain_program, shortest_program

TABLE = np.array([[2, -3], [0, 0], [-1, 1], [-1, -1], [0, 1], [-1, 0]])
WANTED = [2 * 10**30 - 21, 0, 7 - 10**30, -(10**30) - 7, 7, -(10**30)]


@pytest.mark.parametrize("program", [plain_program(TABLE), shortest_program(TABLE, 3)])
def test_every_coefficient_is_respected(program):
    steps = number_steps(program)
    assert steps.of_numbers([10**30, 7]) == WANTED
    assert steps.of_lists([[10**30, 1], [7, 0]]) == [
        [one, other] for one, other in zip(WANTED, TABLE[:, 0], strict=True)
    ]


def test_strassens_sums_are_single_additions_and_subtractions(strassen):
    steps = number_steps(shortest_program(strassen.u, 1)).steps
    assert {operation.__name__ for operation, _, _ in steps} == {"add", "sub"}
    assert len(steps) == 5


def test_what_is_an_input_takes_no_step():
    assert number_steps(Program(3, (), (((2, 1),), ((0, 1),)))).outputs == (2, 0)
    assert number_steps(Program(3, (), (((2, 1),), ((0, 1),)))).steps == ()
