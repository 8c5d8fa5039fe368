from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from palaestra.runs.series_points import POINT, continues, cut, merged


def points(*pairs):
    return np.array([(step, 0.0, value) for step, value in pairs], POINT)


def test_what_comes_later_stands_at_its_step():
    found = merged(points((1, 1.0), (3, 3.0)), points((2, 2.0)))
    assert [(step, value) for step, _, value in found.tolist()] == [(1, 1.0), (2, 2.0), (3, 3.0)]


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1))), st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1))))
def test_merging_is_writing_into_a_dictionary(old, new):
    expected = sorted(dict(old + new).items())
    assert [(step, value) for step, _, value in merged(points(*old), points(*new)).tolist()] == expected


def test_only_rising_steps_beyond_the_last_one_go_on_from_it():
    assert continues(None, points((1, 0.0), (2, 0.0)))
    assert continues(0, points((1, 0.0)))
    assert not continues(1, points((1, 0.0)))
    assert not continues(None, points((2, 0.0), (1, 0.0)))
    assert not continues(None, points((2, 0.0), (2, 0.0)))


def test_a_cut_includes_both_ends_and_is_in_the_order_of_its_axis():
    late = np.array([(1, 50.0, 1.0), (2, 10.0, 2.0), (3, 30.0, 3.0)], POINT)
    assert cut(late, "step", 2, 3)["step"].tolist() == [2, 3]
    assert cut(late, "time", 10.0, 50.0)["step"].tolist() == [2, 3, 1]
    assert cut(late, "time", 11.0, None)["step"].tolist() == [3, 1]
    assert cut(late, "step", None, None)["step"].tolist() == [1, 2, 3]
