import numpy as np
import pytest

from palaestra.apps.matmul.extension import join
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.integer_product import IntegerProduct, integer_source
from palaestra.apps.matmul.straight_line import scheme_programs

INTEGER_RNG = np.random.default_rng(2)
ENDS = np.iinfo(np.int64)


def integer_product(claim, threads=1):
    return IntegerProduct(claim.format, scheme_programs(claim), threads)


def entries(rows, columns):
    return INTEGER_RNG.integers(ENDS.min, ENDS.max, (rows, columns), endpoint=True)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (64, 64, 64), (70, 300, 9), (5, 257, 515), (4, 0, 3)])
@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_give_bit_for_bit_what_numpy_gives_over_all_64_bits(strassen, shape, threads):
    rows, inner, columns = shape
    a, b, out = entries(rows, inner), entries(inner, columns), np.empty((rows, columns), np.int64)
    integer_product(strassen, threads)(a, b, out, 0)
    assert (out == a @ b).all()


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(48, 48, 48), (37, 41, 53), (3, 200, 5), (1, 7, 9)])
def test_every_level_and_every_rim_is_the_same_product(strassen, levels, shape):
    rows, inner, columns = shape
    a, b, out = entries(rows, inner), entries(inner, columns), np.empty((rows, columns), np.int64)
    integer_product(strassen)(a, b, out, levels)
    assert (out == a @ b).all()


def test_parts_of_larger_matrices_are_read_and_written_in_place(strassen):
    a, b, c = (entries(12, 12) for _ in range(3))
    before = c.copy()
    integer_product(strassen)(a[2:7, 3:9], b[1:7, 4:8], c[0:5, 5:9], 1)
    assert (c[0:5, 5:9] == a[2:7, 3:9] @ b[1:7, 4:8]).all()
    before[0:5, 5:9] = c[0:5, 5:9]
    assert (c == before).all()


def test_a_format_of_different_sides_and_one_without_any_sum(strassen):
    wide = join(strassen, schoolbook(Format(2, 2, 1), Field.ZT), "columns")
    a, b, out = entries(29, 23), entries(23, 31), np.empty((29, 31), np.int64)
    for claim in (wide, schoolbook(Format(2, 3, 1), Field.ZT)):
        integer_product(claim, threads=2)(a, b, out, 2)
        assert (out == a @ b).all()


def test_room_is_kept_for_the_next_product_of_that_size_and_given_back(strassen):
    product = integer_product(strassen)
    a, out = entries(32, 32), np.empty((32, 32), np.int64)
    product(a, a, out, 2)
    (room,) = product._rooms.values()
    assert room.ctypes.data % 64 == 0
    product(a, a, out, 2)
    assert next(iter(product._rooms.values())) is room
    product.forget()
    assert not product._rooms


def test_the_source_says_where_each_factor_is(strassen):
    source = integer_source(strassen.format, scheme_programs(strassen))
    assert "N = 2, M = 2, P = 2, RANK = 7, LEFT_SUMS = 5, RIGHT_SUMS = 5" in source
    assert "LEFT_ORDER[] = {4, 5, 0, 3, 6, 7, 8};" in source  # the third and fourth are a11 and a22 themselves
