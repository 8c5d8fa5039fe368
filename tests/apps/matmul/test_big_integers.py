import numpy as np
import pytest

from palaestra.apps.matmul.big_integers import BigIntegerExecutor
from palaestra.apps.matmul.extension import join
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.verification import verify
from palaestra.core.errors import UsageError


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


def test_sides_may_differ_and_what_is_left_below_the_last_level_is_multiplied_by_hand(strassen):
    wide = join(strassen, schoolbook(Format(2, 2, 1), Field.ZT), "columns")
    a, b = long_matrix(12, 8, 3), long_matrix(8, 27, 4)
    for levels in (1, 2):
        assert (BigIntegerExecutor(verify(wide))(a, b, levels) == np.matmul(a, b)).all()


def test_a_scheme_over_gf2_is_refused(strassen_bits):
    with pytest.raises(UsageError, match="modulo 2 only"):
        BigIntegerExecutor(verify(strassen_bits))
