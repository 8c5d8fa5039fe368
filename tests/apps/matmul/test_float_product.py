import numpy as np
import pytest

from palaestra.apps.matmul.factorization import Factorization, schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.float_product import FloatProduct
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.straight_line import scheme_programs

FLOAT_RNG = np.random.default_rng(5)


def float_product(claim, dtype="float64"):
    return FloatProduct(claim, scheme_programs(claim), np.dtype(dtype), 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(8, 8, 8), (13, 9, 21), (1, 5, 4)])
def test_small_whole_numbers_are_exact_at_every_level(strassen, dtype, shape):
    rows, inner, columns = shape
    a, b = FLOAT_RNG.integers(-4, 5, (rows, inner)).astype(dtype), FLOAT_RNG.integers(-4, 5, (inner, columns)).astype(dtype)
    product, out = float_product(strassen, dtype), np.empty((rows, columns), dtype)
    for levels in range(4):
        product(a, b, out, levels)
        assert (out == a @ b).all()


def test_fractions_are_divided_by_once_a_level():
    halves = schoolbook(Format(1, 1, 2), Field.Z)
    claim = Factorization(halves.format, Field.Q, halves.u, halves.v, 2 * halves.w, (1, 1, 2))
    out = np.empty((3, 4))
    float_product(claim)(np.ones((3, 2)), np.ones((2, 4)), out, 2)
    assert (out == 2).all()


def test_sums_begin_with_a_line_of_the_cache(strassen):
    product = float_product(strassen, "float32")
    product(np.ones((18, 18), np.float32), np.ones((18, 18), np.float32), np.empty((18, 18), np.float32), 1)
    (room,) = product._rooms.values()
    assert all(plane.ctypes.data % 64 == 0 for plane in (*room.left.planes, *room.right.planes, *room.products.planes))
    assert all(plane.strides[0] % 64 == 0 for plane in room.products.planes)
