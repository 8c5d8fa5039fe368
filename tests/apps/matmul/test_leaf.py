import numpy as np
import pytest

from palaestra.apps.matmul.leaf import blas_leaf, integer_leaf, leaf_for, row_width

DICE = np.random.default_rng(2)
ENDS = np.iinfo(np.int64)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (64, 64, 64), (70, 300, 9), (5, 257, 515), (4, 0, 3)])
@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_give_bit_for_bit_what_numpy_gives_over_all_64_bits(shape, threads):
    rows, inner, columns = shape
    a = DICE.integers(ENDS.min, ENDS.max, (rows, inner), endpoint=True)
    b = DICE.integers(ENDS.min, ENDS.max, (inner, columns), endpoint=True)
    out = np.empty((rows, columns), np.int64)
    integer_leaf(threads)(a, b, out)
    assert (out == a @ b).all()


def test_parts_of_larger_matrices_are_read_and_written_in_place():
    a, b, c = (DICE.integers(-9, 9, (12, 12)) for _ in range(3))
    before = c.copy()
    integer_leaf(1)(a[2:7, 3:9], b[1:7, 4:8], c[0:5, 5:9])
    assert (c[0:5, 5:9] == a[2:7, 3:9] @ b[1:7, 4:8]).all()
    before[0:5, 5:9] = c[0:5, 5:9]
    assert (c == before).all()


def test_floats_go_to_blas():
    assert leaf_for("float32", 1) is blas_leaf
    assert row_width(np.zeros((4, 6))[:, :3]) == 6
