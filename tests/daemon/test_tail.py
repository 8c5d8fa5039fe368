import pytest

from palaestra.daemon.tail import MAX_LINE, MAX_LINES, read_end, read_tail
from palaestra.runs.directory import RunDirectory


def directory_with(tmp_path, content):
    directory = RunDirectory(tmp_path / "run").make()
    directory.output_file().write_bytes(content)
    return directory


def test_the_last_lines_are_kept_and_nothing_else(tmp_path):
    content = b"".join(b"line %d\n" % number for number in range(5000))
    assert read_tail(directory_with(tmp_path, content)) == [
        f"line {number}" for number in range(5000 - MAX_LINES, 5000)
    ]


@pytest.mark.fault("W11")
def test_what_could_forge_another_line_or_paint_the_screen_is_escaped(tmp_path):
    content = b"\x1b[31mred\x07\n\xff\xfe binary \x00\nprogress 1\rprogress 2\n\xe2\x80\xae backwards\n"
    tail = read_tail(directory_with(tmp_path, content))
    assert tail[-1].startswith("\\u202e")
    assert all(line.isprintable() for line in tail)
    assert "progress 2" in tail


def test_the_last_words_are_found_though_the_log_was_cut_just_then(tmp_path):
    directory = directory_with(tmp_path, b"[dropped]\n")
    directory.earlier_output_file().write_bytes(b"x" * 10_000 + b"\nlast words\n")
    assert read_tail(directory)[-2:] == ["last words", "[dropped]"]


def test_a_line_of_megabytes_is_cut(tmp_path):
    tail = read_tail(directory_with(tmp_path, b"x" * 1_000_000))
    assert [len(line) for line in tail] == [MAX_LINE]


def test_no_file_has_no_lines_and_a_link_is_not_followed(tmp_path):
    directory = RunDirectory(tmp_path / "run").make()
    assert read_tail(directory) == []
    secret = tmp_path / "secret"
    secret.write_text("key")
    directory.output_file().symlink_to(secret)
    assert read_end(directory.output_file()) == b""
