from __future__ import annotations

import gzip
import json
import os

import pytest

from palaestra.core.errors import DamagedFile, NotFound, RunFailed
from palaestra.runs import replays
from palaestra.runs.directory import RunDirectory
from palaestra.runs.replays import ReplayWriter, list_replays, newest_replay, read_kind, read_replay_file, replay_path


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "01J00000000000000000000000").make()


def put(run, name, seconds):
    path = run.replays / name
    path.write_bytes(b"")
    os.utime(path, (seconds, seconds))
    return path


def test_the_newest_comes_first_and_those_of_one_instant_by_name(run):
    old, young = put(run, "9-seed1.json.gz", 100), put(run, "1-seed1.json.gz", 200)
    twin = put(run, "2-seed1.json.gz", 200)
    assert list_replays(run) == [young, twin, old]
    assert newest_replay(run) == young


def test_other_files_and_half_written_ones_are_not_replays(run):
    put(run, ".tmp-1-1-9-seed1.json.gz", 300)
    put(run, "notes.txt", 300)
    (run.replays / "gone.json.gz").symlink_to("nowhere")
    (run.replays / "directory.json.gz").mkdir()
    assert list_replays(run) == []


def test_a_run_without_replays_says_how_to_record_some(run):
    with pytest.raises(NotFound, match="has no replay") as caught:
        newest_replay(run)
    assert "--replays" in caught.value.hint


def test_a_replay_is_named_like_the_video_of_its_episode(run):
    assert replay_path(run.replays, 12, 1_000_000).name == "12-seed1000000.json.gz"


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "x.json.gz", 20)


def write(path, count):
    with ReplayWriter(path, "test", {"seed": 5, "note": 'a "quoted", "steps":[ note'}) as writer:
        for number in range(count):
            writer.add({"number": number})
        writer.finish({"total": count})
    return path


@pytest.mark.parametrize("count", [0, 1, 20])
def test_what_was_written_is_read_again(tmp_path, count):
    file = read_replay_file(write(tmp_path / "x.json.gz", count))
    assert file.header == {"kind": "test", "seed": 5, "note": 'a "quoted", "steps":[ note'}
    assert [json.loads(step) for step in file.steps] == [{"number": number} for number in range(count)]
    assert file.end == {"total": count}


@pytest.mark.parametrize("count", [0, 1, 20])
def test_the_whole_is_one_json_document(tmp_path, count):
    document = json.loads(gzip.decompress(write(tmp_path / "x.json.gz", count).read_bytes()))
    assert len(document["steps"]) == count
    assert document["end"] == {"total": count}


def test_the_kind_is_read_without_reading_the_rest(path):
    assert read_kind(path) == "test"
    cut = gzip.decompress(path.read_bytes()).split(b"\n")[0] + b"\n"
    path.write_bytes(gzip.compress(cut))
    assert read_kind(path) == "test"


def test_a_file_cut_short_anywhere_is_refused_by_name(path):
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedFile, match="x.json.gz"):
            read_replay_file(path)


def test_a_text_cut_short_says_after_how_many_steps(path):
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(b"\n".join(text.split(b"\n")[:8]) + b"\n"))
    with pytest.raises(DamagedFile, match="cut short: it breaks off after 7 steps"):
        read_replay_file(path)


def test_a_flipped_byte_anywhere_is_refused_or_does_not_matter(path):
    """gzip's checksum sees what is in the text; its header has bytes that mean nothing."""
    whole = path.read_bytes()
    before = read_replay_file(path)
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        try:
            assert read_replay_file(path) == before
        except DamagedFile:
            continue


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not a replay"),
        (b"{}", "not a replay"),
        (b"\x00\xff\n", "not a replay"),
        (b'[1,"steps":[\n', "first line is not valid JSON"),
        (
            b'{"schema_version":2,"kind":"test","steps":[\n\n],"end":{}}\n',
            "schema_version 2; this Palaestra reads 1 to 1",
        ),
        (b'{"kind":"test","steps":[\n\n],"end":{}}\n', "schema_version None"),
        (b'{"schema_version":1,"steps":[\n\n],"end":{}}\nmore', "goes on after its end"),
        (b'{"schema_version":1,"steps":[\n\n],"end":', "last line is not valid JSON"),
        (b'{"schema_version":1,"a":' + b"[" * 100_000 + b',"steps":[\n', "not valid JSON"),
    ],
)
def test_a_file_of_another_make_is_refused(tmp_path, text, message):
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(text))
    with pytest.raises(DamagedFile, match=message):
        read_replay_file(path)


def test_no_file_is_not_found_and_a_directory_or_a_plain_text_is_refused(tmp_path):
    with pytest.raises(NotFound):
        read_kind(tmp_path / "nothing.json.gz")
    with pytest.raises(DamagedFile):
        read_kind(tmp_path)
    (tmp_path / "plain.json.gz").write_text("{}")
    with pytest.raises(DamagedFile, match="cannot be unpacked"):
        read_kind(tmp_path / "plain.json.gz")


@pytest.mark.parametrize("kind", [7, None, "", "\x1b[2J", "a b", "../x", "ä", "x" * 65, ["arena"]])
def test_a_kind_that_is_no_name_is_refused_and_no_control_character_reaches_the_message(tmp_path, kind):
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(f'{{"schema_version":1,"kind":{json.dumps(kind)},"steps":[\n'.encode()))
    with pytest.raises(DamagedFile, match="does not say what kind") as caught:
        read_kind(path)
    assert caught.value.message.isprintable()


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    path = tmp_path / "x.json.gz"
    os.mkfifo(path)
    with pytest.raises(DamagedFile, match="no regular file"):
        read_replay_file(path)


def test_a_bomb_is_refused_with_the_limit_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(replays, "MAX_TEXT", 100_000)
    monkeypatch.setattr(replays, "MAX_LINE", 5_000)
    path = tmp_path / "x.json.gz"
    begin = b'{"schema_version":1,"kind":"test","steps":[\n'
    path.write_bytes(gzip.compress(begin + b"0" * 10_000_000))
    with pytest.raises(DamagedFile, match="a line of more than 5000 bytes"):
        read_replay_file(path)
    path.write_bytes(gzip.compress(begin + b"{},\n" * 100_000))
    with pytest.raises(DamagedFile, match="more than 100000 bytes"):
        read_replay_file(path)
    monkeypatch.setattr(replays, "MAX_BYTES", 10)
    with pytest.raises(DamagedFile, match="a replay has at most 10"):
        read_replay_file(path)


def test_too_many_steps_are_refused(path, monkeypatch):
    monkeypatch.setattr(replays, "MAX_STEPS", 10)
    with pytest.raises(DamagedFile, match="more than 10 steps"):
        read_replay_file(path)


def test_what_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(replays, "MAX_TEXT", 1_000)
    with pytest.raises(RunFailed, match="too large after 61 steps: 1011 bytes of 1000"):
        write(tmp_path / "x.json.gz", 10_000)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_was_there_before(path):
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), ReplayWriter(path, "test", {}) as writer:
        writer.add({})
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
