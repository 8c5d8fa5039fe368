import os

import pytest

from palaestra.core.errors import NotFound
from palaestra.runs.directory import RunDirectory
from palaestra.runs.replays import list_replays, newest_replay, replay_path


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
