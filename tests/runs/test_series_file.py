from __future__ import annotations

import bisect
import os

import numpy as np
import pytest

from palaestra.core.errors import DamagedFile
from palaestra.runs.series_file import AT_ONCE, Extent, SeriesFile, append, replace
from palaestra.runs.series_points import POINT


def load(path, extent):
    with SeriesFile(path, extent, POINT) as file:
        file.verify()
        return file.read()


def some(first, last):
    return np.array([(step, step + 0.5, step * 2.0) for step in range(first, last)], POINT)


def test_what_is_put_behind_is_read_back(tmp_path):
    extent = append(tmp_path / "a", Extent(), some(0, 3))
    extent = append(tmp_path / "a", extent, some(3, 10))
    assert load(tmp_path / "a", extent).tolist() == some(0, 10).tolist()


def test_what_was_begun_and_never_finished_does_not_count(tmp_path):
    extent = append(tmp_path / "a", Extent(), some(0, 3))
    append(tmp_path / "a", extent, some(3, 10))  # killed before anybody wrote down that it is there
    assert load(tmp_path / "a", extent).tolist() == some(0, 3).tolist()
    extent = append(tmp_path / "a", extent, some(100, 101))
    assert load(tmp_path / "a", extent).tolist() == [*some(0, 3).tolist(), *some(100, 101).tolist()]


def test_replacing_leaves_the_new_ones_only(tmp_path):
    append(tmp_path / "a", Extent(), some(0, 30))
    extent = replace(tmp_path / "a", some(5, 7))
    assert load(tmp_path / "a", extent).tolist() == some(5, 7).tolist()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_flipped_bit_is_seen(tmp_path):
    extent = append(tmp_path / "a", Extent(), some(0, 30))
    content = bytearray((tmp_path / "a").read_bytes())
    content[100] ^= 1
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DamagedFile, match="not those that were written"):
        load(tmp_path / "a", extent)


def test_a_file_that_was_cut_short_or_is_gone_or_a_link_is_refused(tmp_path):
    extent = append(tmp_path / "a", Extent(), some(0, 30))
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
    extent = append(tmp_path / "a", Extent(), some(0, 30))
    append(tmp_path / "a", extent, some(100, 120))
    with SeriesFile(tmp_path / "a", extent, POINT) as file:
        assert len(file) == 30
        assert file.read(5, 9).tolist() == some(5, 9).tolist()
        assert file.read(28, 99).tolist() == some(28, 30).tolist()
        assert file.read(30).tolist() == []


def test_a_place_in_a_rising_column_is_found_as_by_bisection(tmp_path):
    steps = [1, 3, 3, 3, 8, 9]
    extent = append(tmp_path / "a", Extent(), np.array([(step, 0.0, 0.0) for step in steps], POINT))
    with SeriesFile(tmp_path / "a", extent, POINT) as file:
        for value in range(-1, 12):
            assert file.first_index("step", value) == bisect.bisect_left(steps, value)
            assert file.first_index("step", value, beyond=True) == bisect.bisect_right(steps, value)


def test_a_place_among_more_rows_than_are_read_at_once_is_found_too(tmp_path):
    steps = [1 << 60 | number // 3 * 5 for number in range(5 * AT_ONCE + 7)]  # beyond what a float tells apart
    extent = append(tmp_path / "a", Extent(), np.array([(step, step / 7, 0.0) for step in steps], POINT))
    with SeriesFile(tmp_path / "a", extent, POINT) as file:
        for value in (
            steps[0] - 1,
            *steps[:: AT_ONCE // 7],
            *(step + 1 for step in steps[:: AT_ONCE // 3]),
            steps[-1] + 1,
        ):
            assert file.first_index("step", value) == bisect.bisect_left(steps, value)
            assert file.first_index("step", value, beyond=True) == bisect.bisect_right(steps, value)


def test_a_part_that_is_missing_is_seen(tmp_path):
    extent = append(tmp_path / "a", Extent(), some(0, 30))
    os.truncate(tmp_path / "a", 100)
    with SeriesFile(tmp_path / "a", extent, POINT) as file, pytest.raises(DamagedFile):
        file.read(0, 10)
