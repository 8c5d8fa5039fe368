from __future__ import annotations

import bisect
import os
import random

import numpy as np
import pytest

from palaestra.core.errors import DamagedFile
from palaestra.runs.metrics.buckets import POINT, merge_points, select_range, single_blocks, to_buckets
from palaestra.runs.metrics.curve_files import (
    LEVELS,
    LINEAR_SEARCH_ROWS,
    Curve,
    CurveFile,
    Extent,
    add_points,
    append_rows,
    replace_rows,
    verify,
    window,
)


def points(first, last, seed=0):
    rng = random.Random(seed * 1000 + first)
    return np.array([(step * 7, 1e9 + step, rng.gauss(0, 1)) for step in range(first, last)], POINT)


@pytest.fixture
def long(tmp_path):
    """A curve that has all levels, written in pieces of odd sizes."""
    curve, written = Curve(0), []
    position = 0
    for size in (1, 15, 16, 17, 255, 4000, 100, 20_000, 3):
        written.append(points(position, position + size))
        curve = add_points(tmp_path, curve, written[-1])
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
def test_whatever_window_is_requested_no_point_is_lost_and_none_comes_twice(long, tmp_path, buckets, axis):
    curve, everything = long
    rng = random.Random(buckets)
    x = everything["step" if axis == "step" else "at"]
    for _ in range(20):
        low, high = sorted(rng.uniform(x[0] - 5, x[-1] + 5) for _ in range(2))
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
    coarse, fine = to_buckets(window(tmp_path, curve, 50), 50), to_buckets(single_blocks(everything), 50)
    assert len(coarse.x) == len(fine.x)
    assert np.abs(coarse.x - fine.x).max() < 7 * (everything.shape[0] / 50) * 0.5
    assert coarse.count.sum() == fine.count.sum()


def test_late_points_take_their_place_and_levels_follow(tmp_path):
    first, late = points(0, 1000), np.array([(10 * 7, 5.0, 99.0), (3, 6.0, -99.0)], POINT)
    curve = add_points(tmp_path, add_points(tmp_path, Curve(0), first), late)
    expected = merge_points(first, late)
    verify(tmp_path, curve)
    assert curve.points.count == len(expected) == 1001
    found = window(tmp_path, curve, 1)
    assert (found["low"].min(), found["high"].max()) == (-99.0, 99.0)
    assert not curve.is_in_time
    by_time = window(tmp_path, curve, 5000, "time")
    np.testing.assert_array_equal(by_time["first_step"], select_range(expected, "time", None, None)["step"])


def test_an_empty_curve_has_no_window(tmp_path):
    assert len(window(tmp_path, Curve(0), 10)) == 0
    verify(tmp_path, Curve(0))


def load(path, extent):
    with CurveFile(path, extent, POINT) as file:
        file.verify()
        return file.read()


def some(first, last):
    return np.array([(step, step + 0.5, step * 2.0) for step in range(first, last)], POINT)


def test_what_is_put_behind_is_read_back(tmp_path):
    extent = append_rows(tmp_path / "a", Extent(), some(0, 3))
    extent = append_rows(tmp_path / "a", extent, some(3, 10))
    assert load(tmp_path / "a", extent).tolist() == some(0, 10).tolist()


def test_what_was_begun_and_never_finished_does_not_count(tmp_path):
    extent = append_rows(tmp_path / "a", Extent(), some(0, 3))
    append_rows(tmp_path / "a", extent, some(3, 10))  # killed before anybody wrote down that it is there
    assert load(tmp_path / "a", extent).tolist() == some(0, 3).tolist()
    extent = append_rows(tmp_path / "a", extent, some(100, 101))
    assert load(tmp_path / "a", extent).tolist() == [*some(0, 3).tolist(), *some(100, 101).tolist()]


def test_replacing_leaves_the_new_ones_only(tmp_path):
    append_rows(tmp_path / "a", Extent(), some(0, 30))
    extent = replace_rows(tmp_path / "a", some(5, 7))
    assert load(tmp_path / "a", extent).tolist() == some(5, 7).tolist()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_flipped_bit_is_observed(tmp_path):
    extent = append_rows(tmp_path / "a", Extent(), some(0, 30))
    content = bytearray((tmp_path / "a").read_bytes())
    content[100] ^= 1
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DamagedFile, match="not those that were written"):
        load(tmp_path / "a", extent)


def test_a_file_that_was_cut_short_or_is_gone_or_a_link_is_refused(tmp_path):
    extent = append_rows(tmp_path / "a", Extent(), some(0, 30))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(DamagedFile):
        load(tmp_path / "link", extent)
    with (tmp_path / "a").open("r+b") as stream:
        stream.truncate(100)
    with pytest.raises(DamagedFile, match="ends before the 30 rows"):
        load(tmp_path / "a", extent)
    (tmp_path / "a").unlink()
    with pytest.raises(DamagedFile):
        load(tmp_path / "a", extent)


def test_a_part_is_read_by_itself_and_never_beyond_the_end(tmp_path):
    extent = append_rows(tmp_path / "a", Extent(), some(0, 30))
    append_rows(tmp_path / "a", extent, some(100, 120))
    with CurveFile(tmp_path / "a", extent, POINT) as file:
        assert len(file) == 30
        assert file.read(5, 9).tolist() == some(5, 9).tolist()
        assert file.read(28, 99).tolist() == some(28, 30).tolist()
        assert file.read(30).tolist() == []


def test_a_place_in_a_rising_column_is_found_as_by_bisection(tmp_path):
    steps = [1, 3, 3, 3, 8, 9]
    extent = append_rows(tmp_path / "a", Extent(), np.array([(step, 0.0, 0.0) for step in steps], POINT))
    with CurveFile(tmp_path / "a", extent, POINT) as file:
        for value in range(-1, 12):
            assert file.first_index("step", value) == bisect.bisect_left(steps, value)
            assert file.first_index("step", value, beyond=True) == bisect.bisect_right(steps, value)


def test_a_place_among_more_rows_than_are_read_at_once_is_found_too(tmp_path):
    steps = [1 << 60 | number // 3 * 5 for number in range(5 * LINEAR_SEARCH_ROWS + 7)]  # not exact as floats
    extent = append_rows(tmp_path / "a", Extent(), np.array([(step, step / 7, 0.0) for step in steps], POINT))
    with CurveFile(tmp_path / "a", extent, POINT) as file:
        for value in (
            steps[0] - 1,
            *steps[:: LINEAR_SEARCH_ROWS // 7],
            *(step + 1 for step in steps[:: LINEAR_SEARCH_ROWS // 3]),
            steps[-1] + 1,
        ):
            assert file.first_index("step", value) == bisect.bisect_left(steps, value)
            assert file.first_index("step", value, beyond=True) == bisect.bisect_right(steps, value)


def test_a_part_that_is_missing_is_observed(tmp_path):
    extent = append_rows(tmp_path / "a", Extent(), some(0, 30))
    os.truncate(tmp_path / "a", 100)
    with CurveFile(tmp_path / "a", extent, POINT) as file, pytest.raises(DamagedFile):
        file.read(0, 10)
