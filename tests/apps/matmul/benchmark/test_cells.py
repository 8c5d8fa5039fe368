import pytest

from palaestra.apps.matmul.auto import NUMPY
from palaestra.apps.matmul.benchmark import cells
from palaestra.apps.matmul.benchmark.big_integers import BigIntegerExecutor
from palaestra.apps.matmul.benchmark.cells import (
    BASELINE,
    FLOATS,
    LEAF,
    classify_gain,
    float_cell,
    integer_cell,
    levels_for,
    object_cell,
)
from palaestra.apps.matmul.benchmark.executor import Executor
from palaestra.apps.matmul.benchmark.timing import Timing
from palaestra.apps.matmul.config import BenchConfig
from palaestra.apps.matmul.schemes.verification import verify

QUICK = BenchConfig(seconds=0.01, smallest_block=4)


def samples(monkeypatch, **seconds):
    """Replaces the timings; the work still runs."""

    def fake_timings(candidates, _seconds, _keep):
        for work in candidates.values():
            work()
        return {name: Timing(seconds[name], seconds[name], 1) for name in candidates if name in seconds}

    monkeypatch.setattr(cells, "time_interleaved", fake_timings)


def test_a_gain_is_a_win_a_loss_or_even():
    assert [classify_gain(gain) for gain in (1.03, 1.02, 0.98, 0.97)] == ["win", "even", "even", "loss"]


def test_levels_end_at_the_smallest_block():
    assert levels_for((2, 2, 2), 128, BenchConfig()) == [1, 2]
    assert levels_for((4, 4, 4), 64, BenchConfig()) == [1]
    assert levels_for((2, 2, 2), 4096, BenchConfig()) == [1, 2, 3]


def test_float_cells_report_errors_and_have_a_kernel_gain_of_1(strassen, monkeypatch):
    samples(monkeypatch, **{BASELINE: 2.2, "1": 2.0, "2": 3.0})
    cell = float_cell(Executor(verify(strassen), "float32"), 16, QUICK)
    assert (cell.gain, cell.kernel_gain, cell.algorithm_gain) == (pytest.approx(1.1), 1.0, pytest.approx(1.1))
    assert (cell.levels, cell.auto_levels, cell.verdict) == (1, 1, "win")
    assert 0 < cell.baseline_error < 1e-5
    assert 0 < cell.error < 1e-4


def test_a_gain_too_small_to_be_certain_uses_blas(strassen, monkeypatch):
    samples(monkeypatch, **{BASELINE: 2.04, "1": 2.0, "2": 3.0})
    cell = float_cell(Executor(verify(strassen), "float64"), 16, QUICK)
    assert (cell.verdict, cell.auto_levels) == ("even", 0)


def test_a_gain_that_one_round_contradicts_uses_blas(strassen, monkeypatch):
    rounds = {BASELINE: (2.0, 2.0, 2.0, 2.0, 2.0), "1": (1.5, 1.5, 1.5, 1.5, 1.99), "2": (1.8, 1.8, 1.8, 1.8, 1.8)}
    timings = {name: Timing(min(each), min(each), 5, each) for name, each in rounds.items()}
    monkeypatch.setattr(cells, "time_interleaved", lambda *_: timings)
    cell = float_cell(Executor(verify(strassen), "float64"), 16, QUICK)
    assert (cell.levels, cell.auto_levels) == (1, 2)  # the fastest, and the one with the highest lower bound
    assert cell.sure_gain == pytest.approx(2.0 / 1.8)
    timings["2"] = Timing(1.8, 1.8, 5, (1.8, 1.8, 1.8, 1.8, 2.2))
    assert float_cell(Executor(verify(strassen), "float64"), 16, QUICK).auto_levels == 0


def test_integer_cells_have_separate_kernel_and_algorithm_gains(strassen, monkeypatch):
    samples(monkeypatch, **{BASELINE: 12.0, LEAF: 1.2, "1": 1.0, "2": 1.5, FLOATS: 0.5})
    cell = integer_cell(Executor(verify(strassen), "int64"), 16, QUICK)
    assert (cell.gain, cell.kernel_gain, cell.algorithm_gain) == tuple(map(pytest.approx, (12, 10, 1.2)))
    assert cell.is_exact
    assert cell.verdict == "loss"  # float64 BLAS is exact here, and faster
    assert cell.others[FLOATS] == 0.5


def test_slow_numpy_baselines_are_skipped(strassen):
    cell = integer_cell(Executor(verify(strassen), "int64"), 32, BenchConfig(seconds=0.01, longest=1e-9))
    assert (cell.baseline_seconds, cell.gain) == (None, None)
    assert cell.is_exact


def test_if_numpy_is_fastest_auto_uses_numpy(strassen, monkeypatch):
    samples(monkeypatch, **{BASELINE: 1.0, LEAF: 2.0, "1": 3.0, "2": 4.0})
    cell = integer_cell(Executor(verify(strassen), "int64"), 16, QUICK, modulus=97)
    assert (cell.auto_levels, cell.verdict, cell.detail) == (NUMPY, "loss", "modulo 97")
    assert cell.is_exact


def test_python_integers_are_timed_at_every_depth(strassen):
    cell = object_cell(BigIntegerExecutor(verify(strassen)), 4, 512, QUICK)
    assert cell.is_exact
    assert cell.detail == "512 bits"
    assert cell.levels in {1, 2}
