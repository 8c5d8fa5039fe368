from __future__ import annotations

import random

import numpy as np
import pytest

from palaestra.core.errors import DamagedFile
from palaestra.runs.series_blocks import single
from palaestra.runs.series_buckets import bucketed
from palaestra.runs.series_curve import LEVELS, Curve, put, verify, window
from palaestra.runs.series_points import POINT, cut, merged


def points(first, last, seed=0):
    dice = random.Random(seed * 1000 + first)
    return np.array([(step * 7, 1e9 + step, dice.gauss(0, 1)) for step in range(first, last)], POINT)


@pytest.fixture
def long(tmp_path):
    """A curve that has all levels, written in pieces of odd sizes."""
    curve, written = Curve(0), []
    position = 0
    for size in (1, 15, 16, 17, 255, 4000, 100, 20_000, 3):
        written.append(points(position, position + size))
        curve = put(tmp_path, curve, written[-1])
        position += size
    return curve, np.concatenate(written)


def test_every_level_has_all_whole_rows(long):
    curve, everything = long
    assert curve.points.count == len(everything)
    assert [extent.count for extent in curve.levels] == [len(everything) // size for size in LEVELS]


def test_what_was_written_verifies_and_a_flipped_bit_in_any_level_does_not(long, tmp_path):
    curve, _ = long
    verify(tmp_path, curve)
    for path in sorted(tmp_path.iterdir()):
        before = path.read_bytes()
        path.write_bytes(before[:70] + bytes([before[70] ^ 1]) + before[71:])
        with pytest.raises(DamagedFile):
            verify(tmp_path, curve)
        path.write_bytes(before)
    verify(tmp_path, curve)


@pytest.mark.parametrize("buckets", [1, 3, 50, 600, 100_000])
@pytest.mark.parametrize("axis", ["step", "time"])
def test_whatever_window_is_asked_for_no_point_is_lost_and_none_comes_twice(long, tmp_path, buckets, axis):
    curve, everything = long
    dice = random.Random(buckets)
    x = everything["step" if axis == "step" else "at"]
    for _ in range(20):
        low, high = sorted(dice.uniform(x[0] - 5, x[-1] + 5) for _ in range(2))
        found = window(tmp_path, curve, buckets, axis, low, high)
        inside = everything[(x >= low) & (x <= high)]
        assert found["count"].sum() == len(inside)
        if len(inside):
            assert found["low"].min() == inside["value"].min()
            assert found["high"].max() == inside["value"].max()
            assert found["first_step"][0] == inside["step"][0]
            assert found["last_step"][-1] == inside["step"][-1]
            assert found["total"].sum() == pytest.approx(inside["value"].sum())
        assert np.all(found["first_step"][1:] > found["last_step"][:-1])


def test_a_long_curve_is_read_coarsely_and_still_finely_enough(long, tmp_path):
    curve, everything = long
    assert len(window(tmp_path, curve, 10)) < len(everything) / 100
    assert len(window(tmp_path, curve, 10)) >= 40
    assert len(window(tmp_path, curve, 10_000)) == len(everything)


def test_a_chart_from_levels_is_that_from_points_up_to_a_block_at_the_borders(long, tmp_path):
    curve, everything = long
    coarse, fine = bucketed(window(tmp_path, curve, 50), 50), bucketed(single(everything), 50)
    assert len(coarse.x) == len(fine.x)
    assert np.abs(coarse.x - fine.x).max() < 7 * (everything.shape[0] / 50) * 0.5
    assert coarse.count.sum() == fine.count.sum()


def test_late_points_take_their_place_and_levels_follow(tmp_path):
    first, late = points(0, 1000), np.array([(10 * 7, 5.0, 99.0), (3, 6.0, -99.0)], POINT)
    curve = put(tmp_path, put(tmp_path, Curve(0), first), late)
    expected = merged(first, late)
    verify(tmp_path, curve)
    assert curve.points.count == len(expected) == 1001
    found = window(tmp_path, curve, 1)
    assert (found["low"].min(), found["high"].max()) == (-99.0, 99.0)
    assert not curve.is_in_time
    by_time = window(tmp_path, curve, 5000, "time")
    np.testing.assert_array_equal(by_time["first_step"], cut(expected, "time", None, None)["step"])


def test_an_empty_curve_has_no_window(tmp_path):
    assert len(window(tmp_path, Curve(0), 10)) == 0
    verify(tmp_path, Curve(0))
