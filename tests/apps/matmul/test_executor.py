import numpy as np
import pytest

from palaestra.apps.matmul.executor import Executor
from palaestra.apps.matmul.extension import join
from palaestra.apps.matmul.factorization import Factorization, schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.verification import verify
from palaestra.core.errors import UsageError

RNG = np.random.default_rng(3)
ENDS = np.iinfo(np.int64)


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(8, 8, 8), (13, 9, 21), (1, 5, 4)])
def test_strassen_gives_bit_for_bit_what_numpy_gives(strassen, levels, shape):
    rows, inner, columns = shape
    run = Executor(verify(strassen), "int64")
    a = RNG.integers(ENDS.min, ENDS.max, (rows, inner), endpoint=True)
    b = RNG.integers(ENDS.min, ENDS.max, (inner, columns), endpoint=True)
    assert (run(a, b, levels=levels) == a @ b).all()


def test_sides_may_differ_and_threads_change_nothing(strassen):
    wide = join(strassen, schoolbook(Format(2, 2, 1), Field.ZT), "columns")
    for threads in (1, 2):
        run = Executor(verify(wide), "int64", threads)
        a, b = RNG.integers(-99, 99, (10, 7)), RNG.integers(-99, 99, (7, 19))
        assert (run(a, b, levels=2) == a @ b).all()


def test_floats_of_small_whole_numbers_are_exact_and_others_near(strassen):
    run = Executor(verify(strassen), "float64")
    a, b = (RNG.integers(-4, 4, (15, 15)).astype(np.float64) for _ in range(2))
    assert (run(a, b, levels=2) == a @ b).all()
    a, b = RNG.standard_normal((2, 64, 64))
    assert np.abs(run(a, b, levels=2) - a @ b).max() < 1e-12


def test_a_view_that_is_turned_is_read_right(strassen):
    run = Executor(verify(strassen), "float64")
    a = RNG.integers(-4, 4, (6, 6)).astype(np.float64)
    assert (run(a.T, a[::-1], levels=1) == a.T @ a[::-1]).all()


def test_a_scheme_with_fractions_divides():
    halves = schoolbook(Format(1, 1, 2), Field.Z)
    claim = Factorization(halves.format, Field.Q, halves.u, halves.v, 2 * halves.w, (1, 1, 2))
    run = Executor(verify(claim), "float64")
    a, b = np.ones((3, 2)), np.ones((2, 4))
    assert (run(a, b, levels=2) == 2).all()
    with pytest.raises(UsageError, match="divides"):
        Executor(verify(claim), "int64")


def test_a_scheme_over_gf2_is_refused_for_numbers(strassen_bits):
    for dtype in ("int64", "float32"):
        with pytest.raises(UsageError, match="modulo 2 only"):
            Executor(verify(strassen_bits), dtype)


def test_what_does_not_fit_is_refused(strassen):
    with pytest.raises(UsageError, match="int65"):
        Executor(verify(strassen), "int65")
    run = Executor(verify(strassen), "float64")
    with pytest.raises(UsageError, match="columns"):
        run(np.ones((2, 3)), np.ones((2, 2)))
    with pytest.raises(UsageError, match="float32"):
        run(np.ones((2, 2), np.float32), np.ones((2, 2)))
    with pytest.raises(UsageError, match="'out'"):
        run(np.ones((2, 2)), np.ones((2, 2)), np.ones((3, 2)))


def test_memory_is_given_back(strassen):
    run = Executor(verify(strassen), "float64")
    run(np.ones((8, 8)), np.ones((8, 8)), levels=2)
    assert run._product._rooms
    run.forget()
    assert not run._product._rooms
