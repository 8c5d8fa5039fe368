import os

import pytest

from palaestra.checkpoints.errors import SaveFailed
from palaestra.checkpoints.filesystem import RealFileSystem
from palaestra.checkpoints.log_lines import COPIED_BYTES, LogLines


@pytest.fixture
def lines(tmp_path):
    return LogLines(tmp_path / "log", b"[\n")


def text(directory):
    return (directory / "log").read_text()


def test_lines_stand_between_head_and_tail(tmp_path, lines):
    lines.write({1: b"one", 2: b"two"}, {1, 2})
    assert text(tmp_path) == "[\none,\ntwo\n]}\n"


def test_changes_of_any_length_come_where_the_line_was_and_new_ones_at_the_end(tmp_path, lines):
    lines.write({1: b"one", 2: b"two", 3: b"three"}, {1, 2, 3})
    lines.change({1: b"first of all", 4: b"four", 5: b"five"}, {2, 3, 4, 5})
    assert text(tmp_path) == "[\nfirst of all,\ntwo,\nthree,\nfour,\nfive\n]}\n"
    lines.change({2: b"2", 4: b"", 5: b"the fifth"}, {3, 5})
    lines.change({3: b"THREE", 5: b"V", 6: b"six"}, {6})
    assert text(tmp_path) == "[\nfirst of all,\n2,\nTHREE,\n,\nV,\nsix\n]}\n"


def test_only_what_was_said_to_change_and_what_is_newer_can(lines):
    lines.write({1: b"one", 3: b"three"}, {3})
    assert lines.can_change([3, 4])
    assert not lines.can_change([1])
    assert not lines.can_change([2])


def test_a_file_of_many_pieces_comes_over_whole(tmp_path, lines):
    long = {epoch: f"{epoch:0100d}".encode() for epoch in range(3 * COPIED_BYTES // 100)}
    lines.write(long, {1, 2000})
    lines.change({1: b"one", 2000: b"two thousand"}, ())
    expected = list((long | {1: b"one", 2000: b"two thousand"}).values())
    assert (tmp_path / "log").read_bytes() == b"[\n" + b",\n".join(expected) + b"\n]}\n"


@pytest.mark.parametrize("by", ["another file", "more text", "nothing"])
def test_what_somebody_else_wrote_is_not_known(tmp_path, lines, by):
    assert not lines.are_known
    lines.write({1: b"one"}, {1})
    assert lines.are_known
    if by == "another file":
        (tmp_path / "new").write_text(text(tmp_path))
        (tmp_path / "new").replace(tmp_path / "log")
    elif by == "more text":
        with (tmp_path / "log").open("a") as file:
            file.write(" ")
    else:
        (tmp_path / "log").unlink()
    assert not lines.are_known


def test_a_file_that_became_shorter_is_a_failed_save_and_stays_as_it_is(tmp_path, lines):
    lines.write({1: b"one", 2: b"two"}, {2})
    os.truncate(tmp_path / "log", 4)
    with pytest.raises(SaveFailed, match="became shorter"):
        lines.change({2: b"TWO"}, ())
    assert text(tmp_path) == "[\non"
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_after_a_failed_write_nothing_is_known(tmp_path):
    class Full(RealFileSystem):
        is_full = False

        def write_temporary(self, path, data):
            if self.is_full:
                raise OSError(28, "No space left on device")
            super().write_temporary(path, data)

    disk = Full()
    lines = LogLines(tmp_path / "log", b"[\n", disk)
    lines.write({1: b"one"}, {1})
    disk.is_full = True
    with pytest.raises(SaveFailed):
        lines.change({1: b"ONE"}, {1})
    assert not lines.are_known
    assert text(tmp_path) == "[\none\n]}\n"
