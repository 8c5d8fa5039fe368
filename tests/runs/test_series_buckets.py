from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.runs.series_blocks import every, single
from palaestra.runs.series_buckets import bucketed
from palaestra.runs.series_points import POINT, cut


def curve(values, steps=None, times=None, axis="step"):
    steps = range(len(values)) if steps is None else steps
    times = [1000.0 + step for step in steps] if times is None else times
    return single(cut(np.array(list(zip(steps, times, values, strict=True)), POINT), axis, None, None))


def by_hand(steps, values, count):
    """Bucket number -> its points, written out as the definition says."""
    first, width = steps[0], steps[-1] - steps[0] + 1
    groups: dict[int, list[tuple[int, float]]] = {}
    for step, value in zip(steps, values, strict=True):
        groups.setdefault((step - first) * count // width, []).append((step, value))
    return [groups[number] for number in sorted(groups)]


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=200, unique=True).map(sorted),
    st.integers(1, 50),
    st.randoms(use_true_random=False),
)
def test_stretches_match_the_definition_written_out(steps, count, random):
    values = [random.uniform(-5, 5) for _ in steps]
    found = bucketed(curve(values, steps), count)
    if len(steps) <= count:
        expected = [[pair] for pair in zip(steps, values, strict=True)]
    else:
        expected = by_hand(steps, values, count)
    assert found.min.tolist() == [min(value for _, value in group) for group in expected]
    assert found.max.tolist() == [max(value for _, value in group) for group in expected]
    assert found.count.tolist() == [len(group) for group in expected]
    assert found.mean.tolist() == pytest.approx([sum(value for _, value in group) / len(group) for group in expected])
    for x, group in zip(found.x.tolist(), expected, strict=True):
        assert group[0][0] <= x <= group[-1][0]


def test_steps_too_far_apart_for_whole_numbers_of_64_bits_are_still_told_apart():
    steps = [0, 1, (1 << 61) - 1, 1 << 61, (1 << 62) - 1, 1 << 62]
    found = bucketed(curve([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], steps), 4)
    expected = by_hand(steps, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 4)
    assert found.count.tolist() == [len(group) for group in expected]
    assert found.max.tolist() == [max(value for _, value in group) for group in expected]


def test_no_spike_is_lost_however_few_the_buckets():
    values = np.zeros(100_000)
    values[77_777], values[3] = 9.0, -9.0
    found = bucketed(curve(values), 10)
    assert len(found.x) == 10
    assert found.max.max() == 9.0
    assert found.min.min() == -9.0
    assert found.count.sum() == 100_000


def test_fewer_points_than_buckets_stand_for_themselves():
    found = bucketed(curve([1.0, 2.0, 3.0]), 600)
    assert found.x.tolist() == [0.0, 1.0, 2.0]
    assert found.min.tolist() == found.max.tolist() == found.mean.tolist() == [1.0, 2.0, 3.0]


def test_points_taken_together_before_lose_no_spike_and_no_point():
    values = np.zeros(10_000)
    values[7777], values[3], values[50] = 9.0, -9.0, math.nan
    found = bucketed(every(curve(values), 16), 100)
    assert len(found.x) == 100
    assert found.max.max() == 9.0
    assert found.min.min() == -9.0
    assert found.count.sum() == 9_999
    assert found.bad.sum() == 1


def test_over_time_late_points_take_their_place():
    found = bucketed(curve([1.0, 2.0, 3.0], times=[10.0, 30.0, 20.0], axis="time"), 10, "time")
    assert found.x.tolist() == [10.0, 20.0, 30.0]
    assert found.mean.tolist() == [1.0, 3.0, 2.0]


def test_many_points_of_one_moment_are_one_stretch():
    found = bucketed(curve([1.0, 5.0, 3.0], times=[10.0, 10.0, 10.0]), 2, "time")
    assert (found.min.tolist(), found.max.tolist(), found.count.tolist()) == ([1.0], [5.0], [3])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_counted_and_hides_nothing(bad):
    found = bucketed(curve([1.0, bad, 3.0, bad, bad, bad]), 2)
    assert found.min.tolist()[0] == 1.0
    assert found.max.tolist()[0] == 3.0
    assert found.mean.tolist()[0] == 2.0
    assert math.isnan(found.mean.tolist()[1])
    assert (found.count.tolist(), found.bad.tolist()) == ([2, 0], [1, 3])


def test_huge_numbers_keep_the_mean_between_minimum_and_maximum():
    found = bucketed(curve([1.7e308] * 10), 2)
    assert found.mean.tolist() == [1.7e308, 1.7e308]


def test_an_empty_curve_has_no_buckets():
    assert bucketed(curve([]), 10).x.tolist() == []
