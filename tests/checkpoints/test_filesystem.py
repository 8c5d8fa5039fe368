import os

import pytest

from palaestra.checkpoints.filesystem import CHUNK_BYTES, RealFileSystem

FS = RealFileSystem()


def test_what_is_written_can_be_read_by_its_owner_only(tmp_path):
    data = os.urandom(CHUNK_BYTES + 17)
    FS.write_temporary(tmp_path / "x", data)
    assert (tmp_path / "x").read_bytes() == data
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_not_written_over(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        FS.write_temporary(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"


def test_a_link_planted_under_the_temporary_name_is_not_followed(tmp_path):
    (tmp_path / "x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        FS.write_temporary(tmp_path / "x", b"new")
    assert not (tmp_path / "elsewhere").exists()


def test_a_short_write_is_continued(tmp_path, monkeypatch):
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real_write(descriptor, data[:3]))
    FS.write_temporary(tmp_path / "x", b"0123456789")
    assert (tmp_path / "x").read_bytes() == b"0123456789"


def test_rename_replaces_and_unlink_removes(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    FS.write_temporary(tmp_path / "new", b"new")
    FS.rename(tmp_path / "new", tmp_path / "old")
    FS.fsync_directory(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"new"
    FS.unlink(tmp_path / "old")
    assert not list(tmp_path.iterdir())


def test_pieces_are_written_one_behind_the_other(tmp_path):
    FS.write_temporary(tmp_path / "x", iter([b"one ", b"", b"two"]))
    assert (tmp_path / "x").read_bytes() == b"one two"
