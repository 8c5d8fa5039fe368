from __future__ import annotations

import itertools
import random

import pytest

from palaestra.apps.matmul.benchmark import timing
from palaestra.apps.matmul.benchmark.timing import MIN_ROUNDS, Ratio, Timing, paired_ratio, ratio_of, time_interleaved


@pytest.fixture
def clock(monkeypatch):
    """A clock that only work advances."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def work(clock, *seconds):
    durations = itertools.cycle(seconds)

    def pass_time():
        clock[0] += next(durations)

    return pass_time


def test_best_and_median_of_all_rounds_are_reported(clock):
    timings = time_interleaved({"one": work(clock, 9.0, 3.0, 2.0, 4.0, 6.0, 5.0)}, 0.0)
    assert timings["one"].rounds == MIN_ROUNDS
    assert timings["one"].samples == (3.0, 2.0, 4.0, 6.0, 5.0)  # the first, 9.0, was the trial
    assert timings["one"].best == 2.0
    assert timings["one"].median == 4.0


def test_a_very_slow_candidate_is_timed_once(clock):
    timings = time_interleaved({"fast": work(clock, 1.0), "slow": work(clock, 10.0)}, 0.0)
    assert timings["slow"].rounds == 1
    assert timings["slow"].best == 10.0


def test_a_slow_first_call_gets_a_second_sample(clock):
    candidates = {"one": work(clock, 1.0), "new": work(clock, 2.0, *[0.75] * 9)}
    timings = time_interleaved(candidates, 0.0)
    assert timings["new"].rounds == MIN_ROUNDS
    assert timings["new"].best == 0.75


def test_candidates_of_the_same_rounds_are_compared_by_round():
    slow, fast = Timing(1.0, 2.0, 2, (1.0, 8.0)), Timing(1.0, 1.0, 2, (1.0, 2.0))
    assert (ratio_of(slow, fast).low, ratio_of(slow, fast).high) == (1.0, 4.0)
    assert ratio_of(Timing(6.0, 6.0, 1, (6.0,)), fast).median == 6.0  # timed only once


def test_candidates_in_always_are_never_dropped(clock):
    timings = time_interleaved({"fast": work(clock, 1.0), "slow": work(clock, 10.0)}, 0.0, frozenset({"slow"}))
    assert timings["slow"].rounds == MIN_ROUNDS


def test_short_work_is_repeated_within_a_sample(clock):
    calls = []

    def short():
        calls.append(1)
        clock[0] += 0.0005

    timing = time_interleaved({"short": short}, 0.0)["short"]
    assert timing.best == pytest.approx(0.0005)
    assert len(calls) == 1 + MIN_ROUNDS * 4


def test_rounds_are_compared_one_by_one():
    noise = [1.0, 3.0, 1.5, 9.0, 1.0]  # other load affects both alike
    ratio = paired_ratio([2 * each for each in noise], noise)
    assert ratio == Ratio(2.0, 2.0, 2.0)


def test_with_few_rounds_the_extremes_are_the_bounds():
    assert paired_ratio([1.0, 3.0, 2.0, 5.0, 4.0], [1.0] * 5) == Ratio(1.0, 3.0, 5.0)
    assert paired_ratio([1.5], [1.0]) == Ratio(1.5, 1.5, 1.5)


def test_with_many_rounds_an_outlier_does_not_move_the_bounds():
    calm = [1.0 + k / 1000 for k in range(20)]
    wild = [*calm[:-1], 50.0]
    assert paired_ratio(calm, [1.0] * 20).high == paired_ratio(wild, [1.0] * 20).high


def test_the_bounds_contain_the_true_median_in_95_percent():
    rng = random.Random(4)
    for rounds in (6, 9, 20, 60):
        held = 0
        for _ in range(1000):
            samples = [rng.lognormvariate(0.0, 0.3) for _ in range(rounds)]
            ratio = paired_ratio(samples, [1.0] * rounds)
            held += ratio.low <= 1.0 <= ratio.high
        assert held > 930


def test_unpaired_rounds_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0], [1.0])
