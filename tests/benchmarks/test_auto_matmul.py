import auto_matmul
import numpy as np
import pytest

from palaestra.apps.matmul.benchmark.timing import Timing


@pytest.fixture
def samples(monkeypatch):
    """Rounds that were seen, a list for each time the clock is asked; NumPy takes 1 second each."""
    observed = []

    def fake_timings(candidates, _seconds, _keep):
        for work in candidates.values():
            work()
        autos = observed.pop(0)
        return {
            "auto": Timing(min(autos), autos[0], len(autos), tuple(autos)),
            "NumPy": Timing(1.0, 1.0, len(autos), (1.0,) * len(autos)),
        }

    monkeypatch.setattr(auto_matmul, "time_interleaved", fake_timings)
    return observed


def compare():
    return auto_matmul.compare(1, lambda a, b, out: np.matmul(a, b, out=out), "float32", 4, 1.0)


def test_numpys_function_is_not_timed(samples):
    row = auto_matmul.compare(0, np.matmul, "float32", 4, 1.0)
    assert not row.is_slower
    assert row.words == "NumPy's own function"


def test_a_slow_round_is_measured_again(samples):
    samples += [[1.2, 1.3, 1.24, 1.2, 1.2], [0.9] * 9]
    row = compare()
    assert not row.is_slower
    assert (row.times, row.rounds) == (0.9, 14)


def test_a_choice_that_stays_slower_is_reported(samples):
    samples += [[1.1, 1.12, 1.09, 1.1, 1.1]] * auto_matmul.TRIES
    row = compare()
    assert row.is_slower
    assert row.rounds == 5 * auto_matmul.TRIES
    assert row.words == "1 levels, 1.100 x NumPy's time (1.100 to 1.100, 20 rounds), SLOWER"


def test_a_gain_needs_no_more_rounds(samples):
    samples += [[0.8, 0.9, 0.85, 0.8, 0.8]]
    assert compare().rounds == 5
