from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.runs.series_blocks import every, joined, single
from palaestra.runs.series_points import POINT

VALUES = st.floats(-100, 100) | st.sampled_from([math.nan, math.inf, -math.inf])


def points(values):
    return np.array([(step * 3, 1000.0 + step, value) for step, value in enumerate(values)], POINT)


@given(st.lists(VALUES, min_size=1, max_size=60), st.integers(1, 20))
def test_blocks_are_what_the_definition_says(values, size):
    found = every(single(points(values)), size)
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
    blocks = single(points(values))
    twice, once = every(every(blocks, 4), 4), every(blocks, 16)
    for column in ("first_step", "last_step", "low", "high", "count", "bad"):
        np.testing.assert_array_equal(twice[column], once[column])


def test_nothing_taken_together_is_nothing():
    assert len(every(single(points([])), 16)) == 0
    assert len(joined(single(points([1.0])), np.empty(0, np.intp))) == 0


def test_a_sum_beyond_all_bounds_is_no_failure():
    assert every(single(points([1.7e308] * 4)), 4)["high"].tolist() == [1.7e308]
