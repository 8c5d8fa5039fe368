from __future__ import annotations

import os
from pathlib import Path

import pytest

from palaestra.core.errors import NotFound
from palaestra.web.listing import list_files, open_listed


def content_of(opened):
    with os.fdopen(opened.descriptor, "rb") as stream:
        return stream.read()


def test_files_are_listed_newest_first_with_their_sizes(tmp_path):
    for name, age in (("old.mp4", 100), ("new.mp4", 200), ("other.txt", 300)):
        (tmp_path / name).write_bytes(b"x" * age)
        os.utime(tmp_path / name, (age, age))
    assert [(file.name, file.bytes, file.changed_at) for file in list_files(tmp_path, ".mp4")] == [
        ("new.mp4", 200, 200.0),
        ("old.mp4", 100, 100.0),
    ]


def test_links_hidden_files_pipes_folders_and_odd_names_are_passed_over(tmp_path):
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "two\nlines").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    assert [file.name for file in list_files(tmp_path)] == ["real"]
    for name in ("link", ".hidden", "folder", "two\nlines", "pipe"):
        with pytest.raises(NotFound):
            open_listed(tmp_path, name)


def test_a_listed_file_is_opened(tmp_path):
    (tmp_path / "a.txt").write_text("content")
    opened = open_listed(tmp_path, "a.txt")
    assert opened.bytes == 7
    assert content_of(opened) == b"content"


@pytest.mark.parametrize(
    "name", ["../secret", "..", ".", "", "/etc/passwd", "a.txt/../a.txt", "a.txt\x00", "A.TXT", "./a.txt"]
)
def test_only_exact_names_are_found(tmp_path, name):
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "inside" / "a.txt").write_text("x")
    with pytest.raises(NotFound):
        open_listed(tmp_path / "inside", name)


def test_a_link_in_place_of_the_folder_holds_nothing(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("x")
    (tmp_path / "folder").symlink_to("elsewhere")
    assert list_files(tmp_path / "folder") == []
    with pytest.raises(NotFound):
        open_listed(tmp_path / "folder", "a")


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    assert list_files(tmp_path / "nowhere") == []


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path):
    (tmp_path / "10-seed1.mp4").write_text("x")
    with pytest.raises(NotFound) as refused:
        open_listed(tmp_path, "10-seed2.mp4")
    assert refused.value.hint == "Did you mean '10-seed1.mp4'?"


def test_no_descriptor_stays_open(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        list_files(tmp_path)
        with pytest.raises(NotFound):
            open_listed(tmp_path, "pipe")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
