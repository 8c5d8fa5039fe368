import itertools

import pytest

from palaestra.apps.matmul import bench_timing
from palaestra.apps.matmul.bench_timing import LEAST_ROUNDS, time_in_turns


@pytest.fixture
def clock(monkeypatch):
    """A clock that only work moves."""
    now = [0.0]
    monkeypatch.setattr(bench_timing.time, "perf_counter", lambda: now[0])
    return now


def work(clock, *seconds):
    durations = itertools.cycle(seconds)

    def pass_time():
        clock[0] += next(durations)

    return pass_time


def test_the_best_and_the_middle_of_all_rounds_are_told(clock):
    timings = time_in_turns({"one": work(clock, 5.0, 3.0, 2.0, 4.0)}, 0.0)
    assert timings["one"].rounds == LEAST_ROUNDS
    assert timings["one"].best == 2.0  # the first, 5.0, was the trial
    assert timings["one"].middle == 3.0


def test_a_way_that_is_far_behind_is_asked_once(clock):
    timings = time_in_turns({"fast": work(clock, 1.0), "slow": work(clock, 10.0)}, 0.0)
    assert timings["slow"].rounds == 1
    assert timings["slow"].best == 10.0


def test_a_way_that_must_be_compared_is_kept(clock):
    timings = time_in_turns({"fast": work(clock, 1.0), "slow": work(clock, 10.0)}, 0.0, frozenset({"slow"}))
    assert timings["slow"].rounds == LEAST_ROUNDS


def test_what_is_short_is_repeated_within_a_sample(clock):
    calls = []

    def short():
        calls.append(1)
        clock[0] += 0.0005

    timing = time_in_turns({"short": short}, 0.0)["short"]
    assert timing.best == pytest.approx(0.0005)
    assert len(calls) == 1 + LEAST_ROUNDS * 4
