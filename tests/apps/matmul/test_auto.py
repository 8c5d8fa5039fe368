import numpy as np

from palaestra.apps.matmul.auto import NUMPY, AutoTable, choose
from palaestra.apps.matmul.benchmark.executor import Executor
from palaestra.apps.matmul.schemes.verification import verify

TABLE = AutoTable({"float64": ((64, 0), (512, 0), (1024, 1), (2048, 2)), "int64": ((64, 0), (256, 1))})


def test_between_two_sizes_the_smaller_levels_are_used():
    assert [TABLE.levels_at("float64", size) for size in (64, 600, 1024, 1500, 2048, 9000)] == [0, 0, 1, 1, 2, 2]


def test_below_the_smallest_size_and_for_other_dtypes_there_are_no_levels():
    assert TABLE.levels_at("float64", 63) == NUMPY
    assert TABLE.levels_at("float32", 4096) == NUMPY


def test_the_crossover_is_the_smallest_size_from_which_all_gain():
    assert TABLE.crossover("float64") == 1024
    assert AutoTable({"x": ((64, 1), (128, 0), (256, 0))}).crossover("x") is None
    assert AutoTable({"x": ((64, 1), (128, 0), (256, 1))}).crossover("x") == 256


def test_merging_uses_the_smaller_levels():
    other = AutoTable({"float64": ((512, 1), (1024, 2), (2048, 0), (4096, 3)), "float32": ((64, 0),)})
    agreed = TABLE.merge(other)
    assert agreed.levels["float64"] == ((64, 0), (512, 0), (1024, 1), (2048, 0), (4096, 3))
    assert agreed.levels["int64"] == TABLE.levels["int64"]
    assert agreed.levels["float32"] == ((64, 0),)
    assert AutoTable().merge(TABLE) == TABLE


def test_without_a_gain_numpys_function_is_returned(strassen):
    executors = {dtype: Executor(verify(strassen), dtype) for dtype in ("float64", "int64")}
    assert choose(TABLE, executors, "float64", 600) is np.matmul
    assert choose(TABLE, {}, "float64", 2048) is np.matmul
    chosen = choose(TABLE, executors, "int64", 64)  # our leaf alone
    assert chosen is not np.matmul
    a = np.arange(16).reshape(4, 4)
    assert (chosen(a, a) == a @ a).all()
    assert (choose(TABLE, executors, "int64", 300)(a, a, np.empty_like(a)) == a @ a).all()
