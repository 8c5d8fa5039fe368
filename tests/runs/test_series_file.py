from __future__ import annotations

import numpy as np
import pytest

from palaestra.contracts.errors import DamagedFile
from palaestra.runs.series_file import Extent, append, load, replace
from palaestra.runs.series_points import POINT


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
    with pytest.raises(DamagedFile, match="holds 4 points instead of 30"):
        load(tmp_path / "a", extent)
    (tmp_path / "a").unlink()
    with pytest.raises(DamagedFile):
        load(tmp_path / "a", extent)
