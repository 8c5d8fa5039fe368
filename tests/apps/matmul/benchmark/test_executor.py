from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.matmul.benchmark.executor import (
    LINE,
    Executor,
    FloatProduct,
    IntegerProduct,
    aligned_empty,
    empty_planes,
    integer_source,
    row_stride,
    split,
)
from palaestra.apps.matmul.schemes.composition import join_schemes
from palaestra.apps.matmul.schemes.factorization import Factorization, Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.straight_line import scheme_programs
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.core.errors import UsageError

RNG = np.random.default_rng(3)
ENDS = np.iinfo(np.int64)


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(8, 8, 8), (13, 9, 21), (1, 5, 4)])
def test_strassen_equals_numpy_bit_for_bit(strassen, levels, shape):
    rows, inner, columns = shape
    run = Executor(verify(strassen), "int64")
    a = RNG.integers(ENDS.min, ENDS.max, (rows, inner), endpoint=True)
    b = RNG.integers(ENDS.min, ENDS.max, (inner, columns), endpoint=True)
    assert (run(a, b, levels=levels) == a @ b).all()


def test_sides_may_differ_and_threads_do_not_change_results(strassen):
    wide = join_schemes(strassen, naive_factorization(Format(2, 2, 1), Field.ZT), "columns")
    for threads in (1, 2):
        run = Executor(verify(wide), "int64", threads)
        a, b = RNG.integers(-99, 99, (10, 7)), RNG.integers(-99, 99, (7, 19))
        assert (run(a, b, levels=2) == a @ b).all()


def test_floats_of_small_integers_are_exact_and_others_close(strassen):
    run = Executor(verify(strassen), "float64")
    a, b = (RNG.integers(-4, 4, (15, 15)).astype(np.float64) for _ in range(2))
    assert (run(a, b, levels=2) == a @ b).all()
    a, b = RNG.standard_normal((2, 64, 64))
    assert np.abs(run(a, b, levels=2) - a @ b).max() < 1e-12


def test_transposed_views_are_supported(strassen):
    run = Executor(verify(strassen), "float64")
    a = RNG.integers(-4, 4, (6, 6)).astype(np.float64)
    assert (run(a.T, a[::-1], levels=1) == a.T @ a[::-1]).all()


def test_a_scheme_over_q_divides():
    halves = naive_factorization(Format(1, 1, 2), Field.Z)
    claim = Factorization(halves.format, Field.Q, halves.u, halves.v, 2 * halves.w, (1, 1, 2))
    run = Executor(verify(claim), "float64")
    a, b = np.ones((3, 2)), np.ones((2, 4))
    assert (run(a, b, levels=2) == 2).all()
    with pytest.raises(UsageError, match="needs division"):
        Executor(verify(claim), "int64")


def test_a_scheme_over_gf2_is_refused_for_numbers(strassen_bits):
    for dtype in ("int64", "float32"):
        with pytest.raises(UsageError, match="modulo 2 only"):
            Executor(verify(strassen_bits), dtype)


def test_mismatched_shapes_are_refused(strassen):
    with pytest.raises(UsageError, match="int65"):
        Executor(verify(strassen), "int65")
    run = Executor(verify(strassen), "float64")
    with pytest.raises(UsageError, match="columns"):
        run(np.ones((2, 3)), np.ones((2, 2)))
    with pytest.raises(UsageError, match="float32"):
        run(np.ones((2, 2), np.float32), np.ones((2, 2)))
    with pytest.raises(UsageError, match="'out'"):
        run(np.ones((2, 2)), np.ones((2, 2)), np.ones((3, 2)))


def test_buffers_can_be_released(strassen):
    run = Executor(verify(strassen), "float64")
    run(np.ones((8, 8)), np.ones((8, 8)), levels=2)
    assert run._product._buffers
    run.release_buffers()
    assert not run._product._buffers


FLOAT_RNG = np.random.default_rng(5)


def float_product(claim, dtype="float64"):
    return FloatProduct(claim, scheme_programs(claim), np.dtype(dtype), 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(8, 8, 8), (13, 9, 21), (1, 5, 4)])
def test_small_integers_are_exact_at_every_level(strassen, dtype, shape):
    rows, inner, columns = shape
    a, b = (
        FLOAT_RNG.integers(-4, 5, (rows, inner)).astype(dtype),
        FLOAT_RNG.integers(-4, 5, (inner, columns)).astype(dtype),
    )
    product, out = float_product(strassen, dtype), np.empty((rows, columns), dtype)
    for levels in range(4):
        product(a, b, out, levels)
        assert (out == a @ b).all()


def test_denominators_are_applied_once_per_level():
    halves = naive_factorization(Format(1, 1, 2), Field.Z)
    claim = Factorization(halves.format, Field.Q, halves.u, halves.v, 2 * halves.w, (1, 1, 2))
    out = np.empty((3, 4))
    float_product(claim)(np.ones((3, 2)), np.ones((2, 4)), out, 2)
    assert (out == 2).all()


def test_sums_are_aligned_to_cache_lines(strassen):
    product = float_product(strassen, "float32")
    product(np.ones((18, 18), np.float32), np.ones((18, 18), np.float32), np.empty((18, 18), np.float32), 1)
    (room,) = product._buffers.values()
    assert all(plane.ctypes.data % 64 == 0 for plane in (*room.left.planes, *room.right.planes, *room.products.planes))
    assert all(plane.strides[0] % 64 == 0 for plane in room.products.planes)


INTEGER_RNG = np.random.default_rng(2)


def integer_product(claim, threads=1):
    return IntegerProduct(claim.format, scheme_programs(claim), threads)


def entries(rows, columns):
    return INTEGER_RNG.integers(ENDS.min, ENDS.max, (rows, columns), endpoint=True)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (64, 64, 64), (70, 300, 9), (5, 257, 515), (4, 0, 3)])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_tiled_kernel_equals_numpy_over_all_64_bits(strassen, shape, threads):
    rows, inner, columns = shape
    a, b, out = entries(rows, inner), entries(inner, columns), np.empty((rows, columns), np.int64)
    integer_product(strassen, threads)(a, b, out, 0)
    assert (out == a @ b).all()


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(48, 48, 48), (37, 41, 53), (3, 200, 5), (1, 7, 9)])
def test_all_levels_and_borders_give_the_same_product(strassen, levels, shape):
    rows, inner, columns = shape
    a, b, out = entries(rows, inner), entries(inner, columns), np.empty((rows, columns), np.int64)
    integer_product(strassen)(a, b, out, levels)
    assert (out == a @ b).all()


def test_views_of_larger_matrices_are_read_and_written(strassen):
    a, b, c = (entries(12, 12) for _ in range(3))
    before = c.copy()
    integer_product(strassen)(a[2:7, 3:9], b[1:7, 4:8], c[0:5, 5:9], 1)
    assert (c[0:5, 5:9] == a[2:7, 3:9] @ b[1:7, 4:8]).all()
    before[0:5, 5:9] = c[0:5, 5:9]
    assert (c == before).all()


def test_a_format_of_different_sides_and_one_without_any_sum(strassen):
    wide = join_schemes(strassen, naive_factorization(Format(2, 2, 1), Field.ZT), "columns")
    a, b, out = entries(29, 23), entries(23, 31), np.empty((29, 31), np.int64)
    for claim in (wide, naive_factorization(Format(2, 3, 1), Field.ZT)):
        integer_product(claim, threads=2)(a, b, out, 2)
        assert (out == a @ b).all()


def test_buffers_are_reused_and_released(strassen):
    product = integer_product(strassen)
    a, out = entries(32, 32), np.empty((32, 32), np.int64)
    product(a, a, out, 2)
    (room,) = product._buffers.values()
    assert room.ctypes.data % 64 == 0
    product(a, a, out, 2)
    assert next(iter(product._buffers.values())) is room
    product.release_buffers()
    assert not product._buffers


def test_the_source_has_the_order_of_factors(strassen):
    source = integer_source(strassen.format, scheme_programs(strassen))
    assert "N = 2, M = 2, P = 2, RANK = 7, LEFT_SUMS = 5, RIGHT_SUMS = 5" in source
    assert "LEFT_ORDER[] = {4, 5, 0, 3, 6, 7, 8};" in source  # the third and fourth are a11 and a22 themselves


def test_a_view_has_the_row_stride_of_its_matrix():
    assert row_stride(np.zeros((4, 6))[:, :3]) == 6


def test_blocks_are_views_in_row_major_order_with_addresses():
    matrix = np.arange(24.0).reshape(4, 6)
    blocks = split(matrix, 2, 3)
    assert len(blocks) == 6
    assert blocks.planes[4].tolist() == [[14, 15], [20, 21]]
    assert blocks.addresses[:, 1].tolist() == [6] * 6
    assert (blocks.addresses[:, 0] - matrix.ctypes.data).tolist() == [8 * place for place in (0, 2, 4, 12, 14, 16)]


def test_planes_are_disjoint_and_rows_aligned():
    planes = empty_planes(3, 5, 9, np.dtype(np.float32))
    for value, plane in enumerate(planes.planes):
        plane[:] = value
    assert [set(plane.ravel().tolist()) for plane in planes.planes] == [{0.0}, {1.0}, {2.0}]
    assert all(row.ctypes.data % LINE == 0 for plane in planes.planes for row in plane)


def test_zero_planes_have_an_empty_address_table():
    assert empty_planes(0, 4, 4, np.dtype(np.int64)).addresses.shape == (0, 2)


def test_aligned_memory_has_the_requested_length():
    for entries in (1, 1000):
        made = aligned_empty(entries, np.dtype(np.int64))
        assert len(made) == entries
        assert made.ctypes.data % LINE == 0
