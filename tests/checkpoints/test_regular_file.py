import errno
import os

import pytest

from palaestra.checkpoints.regular_file import open_regular_file, read_regular_file
from palaestra.core.errors import DamagedFile


def test_a_file_is_read(tmp_path):
    (tmp_path / "x").write_bytes(b"12345")
    assert read_regular_file(tmp_path / "x", 5) == b"12345"
    with open_regular_file(tmp_path / "x", 5, follow_links=True) as (stream, size):
        assert (stream.read(2), size) == (b"12", 5)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_regular_file(tmp_path / "x", 5)


def test_pipes_devices_directories_and_large_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(bytes(6))
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "large", tmp_path.joinpath("/dev/zero")):
        with pytest.raises(DamagedFile):
            read_regular_file(path, 5)


def test_a_link_is_followed_only_where_the_user_named_it(tmp_path):
    (tmp_path / "x").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with pytest.raises(DamagedFile):
        read_regular_file(tmp_path / "link", 5)
    with open_regular_file(tmp_path / "link", 5, follow_links=True) as (stream, _):
        assert stream.read() == b"1"


def test_a_disk_that_fails_while_it_is_read_is_told_with_the_file(tmp_path):
    (tmp_path / "x").write_bytes(b"1")
    with (
        pytest.raises(DamagedFile, match=r"x cannot be read: Input/output error"),
        open_regular_file(tmp_path / "x", 5, follow_links=False),
    ):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_no_descriptor_is_left_open(tmp_path):
    (tmp_path / "x").write_bytes(b"1")
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for path in (tmp_path / "x", tmp_path):
        try:
            read_regular_file(path, 5)
        except DamagedFile:
            continue
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
