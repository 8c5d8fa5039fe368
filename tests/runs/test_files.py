from __future__ import annotations

import gc
import json
import math
import os
import resource
import stat
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.runs import files
from palaestra.runs.files import (
    append_line,
    in_flight,
    indented,
    is_abandoned,
    read_json,
    read_yaml,
    stamped,
    sweep_temporaries,
    unstamped,
    write_atomic,
    write_json,
    write_yaml,
)

FLIP = """
import sys; from pathlib import Path
from palaestra.runs.files import write_json
path = Path(sys.argv[1]); print("ready", flush=True)
for number in range(10**9): write_json(path, {"number": number, "again": [number] * (number % 500)}, durable=False)
"""


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a.txt"
    write_atomic(path, "one")
    write_atomic(path, b"two", durable=False)
    assert path.read_text() == "two"
    assert names_in(tmp_path) == ["a.txt"]


def test_a_file_of_ours_is_readable_by_its_owner_only(tmp_path):
    write_atomic(tmp_path / "a", "secret")
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0


def test_a_reader_never_sees_half_a_file(tmp_path, start_python):
    path = tmp_path / "eval_summary.json"
    write_json(path, {"number": 0, "again": []})
    start_python(FLIP, path)
    observed = Counter()
    while observed.total() < 3000 or len(observed) <= 10:  # on a full machine the writer may have to wait for its turn
        data = json.loads(path.read_bytes())
        assert data["again"] == [data["number"]] * (data["number"] % 500)
        observed[data["number"]] += 1


def test_a_full_disk_leaves_the_old_file_and_no_temporary(tmp_path):
    path = tmp_path / "a"
    write_atomic(path, "old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write_atomic(path, "new" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["a"]


@pytest.mark.parametrize(("durable", "expected"), [(True, ["file", "rename", "directory"]), (False, ["rename"])])
def test_a_durable_write_syncs_the_file_before_the_rename_and_the_directory_after(
    tmp_path, monkeypatch, durable, expected
):
    operations = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor):
        operations.append("directory" if Path(f"/proc/self/fd/{descriptor}").is_dir() else "file")
        real_fsync(descriptor)

    def replace(*arguments, **options):
        operations.append("rename")
        real_replace(*arguments, **options)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomic(tmp_path / "a", "x", durable=durable)
    assert operations == expected


def test_two_threads_may_write_the_same_file(tmp_path):
    path = tmp_path / "a"
    errors = []

    def write(letter: str) -> None:
        try:
            for _ in range(100):
                write_atomic(path, letter * 1000, durable=False)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert path.read_text() in {"a" * 1000, "b" * 1000}


def test_lines_are_appended_whole(tmp_path):
    path = tmp_path / "journal"
    append_line(path, "one")
    append_line(path, "zwei ä")
    assert path.read_text() == "one\nzwei ä\n"
    with pytest.raises(ValueError, match="one line"):
        append_line(path, "a\nb")


def test_a_torn_line_does_not_spoil_the_next_one(tmp_path):
    path = tmp_path / "journal"
    path.write_text('one\n{"tor')
    append_line(path, "two")
    assert path.read_text().splitlines() == ["one", '{"tor', "two"]


def test_a_line_that_does_not_fit_is_an_error():
    with pytest.raises(OSError, match="No space left"):
        append_line(Path("/dev/full"), "x")


def test_json_goes_out_and_comes_back(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"b": [1, 2.5, None, True, "ä"], "a": (1,)})
    assert read_json(path) == {"b": [1, 2.5, None, True, "ä"], "a": [1]}


def test_numbers_that_json_has_no_word_for_are_spelled_out(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": math.nan, "y": [math.inf, -math.inf]})
    strict = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert math.isnan(float(strict["x"]))
    assert [float(value) for value in strict["y"]] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    "content", [b"", b'{"a": ', b"\xff\xfe", b"[" * 200_000], ids=["empty", "torn", "bytes", "deep"]
)
def test_a_damaged_json_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "status.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"status\.json"):
        read_json(path)


def test_a_file_that_is_far_too_long_is_not_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[" + "1," * 1000 + "1]")
    with pytest.raises(DamagedFile, match="longer than 100 bytes"):
        read_json(path, max_bytes=100)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(NotFound, match=r"a\.json"):
        read_json(tmp_path / "a.json")


def test_a_directory_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(DamagedFile, match="directory"):
        read_json(tmp_path)


def test_yaml_goes_out_and_comes_back_in_order(tmp_path):
    path = tmp_path / "a.yaml"
    data = {"z": 1e-3, "a": {"yes": "no", "list": [1, None, True]}, "text": "1e6"}
    write_yaml(path, data)
    assert read_yaml(path) == data
    assert list(read_yaml(path)) == ["z", "a", "text"]


def test_a_hostile_yaml_file_is_refused_by_name(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(DamagedFile, match=r"config\.yaml"):
        read_yaml(path)


def test_temporaries_of_dead_processes_are_swept_and_those_of_living_ones_stay(tmp_path, dead_pid):
    dead = tmp_path / f".tmp-{dead_pid}-1-status.json"
    living = tmp_path / f".tmp-{os.getppid()}-1-status.json"
    other = tmp_path / ".tmp-notes"
    for path in (dead, living, other):
        path.write_text("x")
    assert sweep_temporaries(tmp_path) == [dead]
    assert names_in(tmp_path) == sorted([living.name, other.name])


def test_a_temporary_of_an_earlier_process_with_our_pid_is_swept_but_not_one_we_are_writing(tmp_path):
    ours, earlier = tmp_path / f".tmp-{os.getpid()}-1-a", tmp_path / f".tmp-{os.getpid()}-2-a"
    with in_flight(ours):
        assert not is_abandoned(ours)
        assert is_abandoned(earlier)
    assert is_abandoned(ours)


def test_a_file_of_exactly_the_most_bytes_is_read_and_the_most_are_these(tmp_path):
    path = tmp_path / "a"
    path.write_text("12345")
    assert (read_json(path, 5), read_yaml(path, 5)) == (12345, 12345)
    for read in (read_json, read_yaml):
        with pytest.raises(DamagedFile, match="longer than 4 bytes"):
            read(path, 4)
    assert (files.MAX_JSON_BYTES, files.MAX_YAML_BYTES) == (16_777_216, 1_048_576)


def test_json_is_laid_out_for_people_and_half_a_character_does_not_stop_it(tmp_path):
    write_json(tmp_path / "a", {"a": ["ä\ud800"]})
    assert (tmp_path / "a").read_bytes() == '{\n  "a": [\n    "ä\\ud800"\n  ]\n}\n'.encode()
    append_line(tmp_path / "journal", "\ud800")
    assert (tmp_path / "journal").read_bytes() == b"\\ud800\n"


def test_a_journal_is_for_its_owner_alone(tmp_path):
    append_line(tmp_path / "journal", "x")
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o600


def test_half_a_line_on_a_full_disk_is_an_error(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    with pytest.raises(OSError, match="only 3 of 6 bytes"):
        append_line(tmp_path / "journal", "hello")


@pytest.mark.parametrize("write", [write_atomic, write_json, write_yaml])
def test_every_kind_of_file_is_durable_unless_it_need_not_be(tmp_path, monkeypatch, write):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), fsync(descriptor)))
    write(tmp_path / "a", "x", durable=False)
    assert synced == []
    write(tmp_path / "a", "x")
    assert len(synced) == 2


def test_no_sweep_takes_what_is_just_being_written_and_nothing_is_stored_in_mind(tmp_path, monkeypatch):
    replace, observed = os.replace, []

    def look_and_replace(source, target):
        observed.append((sweep_temporaries(tmp_path), is_abandoned(Path(source))))
        replace(source, target)

    monkeypatch.setattr(os, "replace", look_and_replace)
    write_atomic(tmp_path / "a", "x")
    assert observed == [([], False)]
    monkeypatch.setattr(os, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_atomic(tmp_path / "a", "y")
    assert names_in(tmp_path) == ["a"]
    assert files._in_flight == set()


def test_a_directory_is_never_swept(tmp_path, dead_pid):
    (tmp_path / f".tmp-{dead_pid}-1-folder").mkdir()
    assert sweep_temporaries(tmp_path) == []


def test_writing_and_reading_leave_no_descriptor_open(tmp_path):
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    write_json(tmp_path / "a", 1)
    append_line(tmp_path / "journal", "x")
    assert read_json(tmp_path / "a") == 1
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_what_is_synced_is_the_whole_content(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files.os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    write_atomic(tmp_path / "x", b"12345")
    content, directory = synced
    assert (content.st_size, stat.S_ISDIR(directory.st_mode)) == (5, True)


def test_only_a_directory_is_synced_as_one(tmp_path):
    (tmp_path / "x").touch()
    with pytest.raises(NotADirectoryError):
        files.fsync_directory(tmp_path / "x")


def test_a_line_of_one_torn_letter_is_closed_too(tmp_path):
    (tmp_path / "x").write_bytes(b"{")
    append_line(tmp_path / "x", "whole")
    assert (tmp_path / "x").read_bytes() == b"{\nwhole\n"


def test_a_sweep_passes_over_what_another_one_takes_at_the_same_time(tmp_path, monkeypatch):
    def taken_by_another(path):
        path.unlink()
        return True

    (tmp_path / ".tmp-1-1-x").touch()
    monkeypatch.setattr(files, "is_abandoned", taken_by_another)
    assert sweep_temporaries(tmp_path) == [tmp_path / ".tmp-1-1-x"]


def test_what_has_no_owner_in_its_name_is_not_abandoned(tmp_path):
    assert is_abandoned(tmp_path / "status.json") is False


def test_links_and_pipes_in_place_of_a_file_are_refused_where_they_may_not_be(tmp_path):
    (tmp_path / "there.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("there.json")
    assert read_json(tmp_path / "link.json") == {}
    with pytest.raises(DamagedFile, match=r"link\.json cannot be read: it is a link"):
        read_json(tmp_path / "link.json", follow_links=False)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(DamagedFile, match=r"pipe\.json"):
        read_json(tmp_path / "pipe.json")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
DATA = st.recursive(
    SCALARS,
    lambda parts: st.lists(parts) | st.lists(parts).map(tuple) | st.dictionaries(st.text(), parts),
    max_leaves=20,
)


@given(DATA)
@settings(max_examples=200, deadline=None)
def test_the_text_is_that_of_the_standard_library(data):
    assert indented(data) == json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)


@pytest.mark.parametrize(
    "value",
    [float("nan"), {"a": [float("inf")]}, {"a": {1, 2}}, object()],
    ids=["NaN", "an infinity", "a set", "an object"],
)
def test_what_is_no_json_is_refused_as_there(value):
    with pytest.raises((ValueError, TypeError)) as standard:
        json.dumps(value, indent=2, allow_nan=False)
    with pytest.raises(standard.type):
        indented(value)


def test_nothing_is_left_to_the_collector():
    data = {"run": {"steps": 5, "summary": {"score": 1.5, "tags": ["a", "b"]}}}
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            indented(data)
        assert gc.collect() == 0
    finally:
        gc.enable()


PATH = Path("x/status.json")


def test_the_version_stands_first_and_is_taken_off_again():
    assert list(stamped({"a": 1}, 2).items()) == [("schema_version", 2), ("a", 1)]
    assert unstamped(stamped({"a": 1}, 2), 2, PATH) == {"a": 1}


def test_an_older_version_is_read():
    assert unstamped({"schema_version": 1, "a": 1}, 2, PATH) == {"a": 1}


def test_a_newer_version_is_refused_with_both_numbers():
    with pytest.raises(DamagedFile, match=r"status\.json has schema_version 3; this Palaestra reads 1 to 2"):
        unstamped({"schema_version": 3}, 2, PATH)


@pytest.mark.parametrize(
    "data", [{}, {"schema_version": "1"}, {"schema_version": 0}, {"schema_version": True}, [], None]
)
def test_what_has_no_version_is_not_ours(data):
    with pytest.raises(DamagedFile, match=r"status\.json"):
        unstamped(data, 1, PATH)
