import numpy as np
import pytest

from palaestra.apps.matmul.big_integers import BigIntegerExecutor, combined
from palaestra.apps.matmul.straight_line import shortest_program
from palaestra.apps.matmul.verification import verify
from palaestra.contracts.errors import UsageError


def long_matrix(rows, columns, seed):
    dice = np.random.default_rng(seed)
    made = np.array([int.from_bytes(dice.bytes(64), "little", signed=True) for _ in range(rows * columns)], object)
    return made.reshape(rows, columns)


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("shape", [(8, 8, 8), (3, 5, 2), (1, 1, 1)])
def test_long_integers_are_multiplied_exactly(strassen, levels, shape):
    rows, inner, columns = shape
    a, b = long_matrix(rows, inner, 1), long_matrix(inner, columns, 2)
    made = BigIntegerExecutor(verify(strassen))(a, b, levels)
    wanted = [[sum(a[i, k] * b[k, j] for k in range(inner)) for j in range(columns)] for i in range(rows)]
    assert made.tolist() == wanted


def test_other_coefficients_are_multiplied():
    table = np.array([[2, -3], [0, 0], [-1, 1]])
    values = [np.array([10**30], object), np.array([7], object)]
    made = combined(shortest_program(table, 1), values)
    assert [int(one[0]) for one in made] == [2 * 10**30 - 21, 0, 7 - 10**30]


def test_a_scheme_over_gf2_is_refused(strassen_bits):
    with pytest.raises(UsageError, match="modulo 2 only"):
        BigIntegerExecutor(verify(strassen_bits))
