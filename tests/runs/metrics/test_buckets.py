from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.runs.metrics.buckets import (
    POINT,
    is_appendable,
    join_blocks,
    join_every,
    merge_points,
    select_range,
    single_blocks,
    to_buckets,
)


def curve(values, steps=None, times=None, axis="step"):
    steps = range(len(values)) if steps is None else steps
    times = [1000.0 + step for step in steps] if times is None else times
    return single_blocks(select_range(np.array(list(zip(steps, times, values, strict=True)), POINT), axis, None, None))


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
def test_segments_match_the_definition_written_out(steps, count, random):
    values = [random.uniform(-5, 5) for _ in steps]
    found = to_buckets(curve(values, steps), count)
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


def test_steps_too_far_apart_for_whole_numbers_of_64_bits_are_still_distinguished():
    steps = [0, 1, (1 << 61) - 1, 1 << 61, (1 << 62) - 1, 1 << 62]
    found = to_buckets(curve([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], steps), 4)
    expected = by_hand(steps, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 4)
    assert found.count.tolist() == [len(group) for group in expected]
    assert found.max.tolist() == [max(value for _, value in group) for group in expected]


def test_no_spike_is_lost_however_few_the_buckets():
    values = np.zeros(100_000)
    values[77_777], values[3] = 9.0, -9.0
    found = to_buckets(curve(values), 10)
    assert len(found.x) == 10
    assert found.max.max() == 9.0
    assert found.min.min() == -9.0
    assert found.count.sum() == 100_000


def test_fewer_points_than_buckets_stand_for_themselves():
    found = to_buckets(curve([1.0, 2.0, 3.0]), 600)
    assert found.x.tolist() == [0.0, 1.0, 2.0]
    assert found.min.tolist() == found.max.tolist() == found.mean.tolist() == [1.0, 2.0, 3.0]


def test_points_taken_together_before_lose_no_spike_and_no_point():
    values = np.zeros(10_000)
    values[7777], values[3], values[50] = 9.0, -9.0, math.nan
    found = to_buckets(join_every(curve(values), 16), 100)
    assert len(found.x) == 100
    assert found.max.max() == 9.0
    assert found.min.min() == -9.0
    assert found.count.sum() == 9_999
    assert found.bad.sum() == 1


def test_over_time_late_points_take_their_place():
    found = to_buckets(curve([1.0, 2.0, 3.0], times=[10.0, 30.0, 20.0], axis="time"), 10, "time")
    assert found.x.tolist() == [10.0, 20.0, 30.0]
    assert found.mean.tolist() == [1.0, 3.0, 2.0]


def test_many_points_of_one_moment_are_one_segment():
    found = to_buckets(curve([1.0, 5.0, 3.0], times=[10.0, 10.0, 10.0]), 2, "time")
    assert (found.min.tolist(), found.max.tolist(), found.count.tolist()) == ([1.0], [5.0], [3])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_counted_and_hides_nothing(bad):
    found = to_buckets(curve([1.0, bad, 3.0, bad, bad, bad]), 2)
    assert found.min.tolist()[0] == 1.0
    assert found.max.tolist()[0] == 3.0
    assert found.mean.tolist()[0] == 2.0
    assert math.isnan(found.mean.tolist()[1])
    assert (found.count.tolist(), found.bad.tolist()) == ([2, 0], [1, 3])


def test_huge_numbers_keep_the_mean_between_minimum_and_maximum():
    found = to_buckets(curve([1.7e308] * 10), 2)
    assert found.mean.tolist() == [1.7e308, 1.7e308]


def test_an_empty_curve_has_no_buckets():
    assert to_buckets(curve([]), 10).x.tolist() == []


VALUES = st.floats(-100, 100) | st.sampled_from([math.nan, math.inf, -math.inf])


def points(values):
    return np.array([(step * 3, 1000.0 + step, value) for step, value in enumerate(values)], POINT)


@given(st.lists(VALUES, min_size=1, max_size=60), st.integers(1, 20))
def test_blocks_are_what_the_definition_says(values, size):
    found = join_every(single_blocks(points(values)), size)
    for block, begin in zip(found, range(0, len(values), size), strict=True):
        group = values[begin : begin + size]
        finite = [value for value in group if math.isfinite(value)]
        assert block["first_step"] == begin * 3
        assert block["last_at"] == 1000.0 + begin + len(group) - 1
        assert (block["count"], block["bad"]) == (len(finite), len(group) - len(finite))
        assert block["total"] == pytest.approx(sum(finite), abs=1e-9)
        assert block["low"] == min(finite) if finite else math.isnan(block["low"])
        assert block["high"] == max(finite) if finite else math.isnan(block["high"])


@given(st.lists(VALUES, min_size=1, max_size=200))
def test_taking_together_twice_is_taking_together_once(values):
    blocks = single_blocks(points(values))
    twice, once = join_every(join_every(blocks, 4), 4), join_every(blocks, 16)
    for column in ("first_step", "last_step", "low", "high", "count", "bad"):
        np.testing.assert_array_equal(twice[column], once[column])


def test_nothing_taken_together_is_nothing():
    assert len(join_every(single_blocks(points([])), 16)) == 0
    assert len(join_blocks(single_blocks(points([1.0])), np.empty(0, np.intp))) == 0


def test_a_sum_beyond_all_bounds_is_no_failure():
    assert join_every(single_blocks(points([1.7e308] * 4)), 4)["high"].tolist() == [1.7e308]


def make_points(*pairs):
    return np.array([(step, 0.0, value) for step, value in pairs], POINT)


def test_what_comes_later_stands_at_its_step():
    found = merge_points(make_points((1, 1.0), (3, 3.0)), make_points((2, 2.0)))
    assert [(step, value) for step, _, value in found.tolist()] == [(1, 1.0), (2, 2.0), (3, 3.0)]


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1))), st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1))))
def test_merging_is_writing_into_a_dictionary(old, new):
    expected = sorted(dict(old + new).items())
    assert [(step, value) for step, _, value in merge_points(make_points(*old), make_points(*new)).tolist()] == expected


def test_only_rising_steps_beyond_the_last_one_go_on_from_it():
    assert is_appendable(None, make_points((1, 0.0), (2, 0.0)))
    assert is_appendable(0, make_points((1, 0.0)))
    assert not is_appendable(1, make_points((1, 0.0)))
    assert not is_appendable(None, make_points((2, 0.0), (1, 0.0)))
    assert not is_appendable(None, make_points((2, 0.0), (2, 0.0)))


def test_a_cut_includes_both_ends_and_is_in_the_order_of_its_axis():
    late = np.array([(1, 50.0, 1.0), (2, 10.0, 2.0), (3, 30.0, 3.0)], POINT)
    assert select_range(late, "step", 2, 3)["step"].tolist() == [2, 3]
    assert select_range(late, "time", 10.0, 50.0)["step"].tolist() == [2, 3, 1]
    assert select_range(late, "time", 11.0, None)["step"].tolist() == [3, 1]
    assert select_range(late, "step", None, None)["step"].tolist() == [1, 2, 3]
