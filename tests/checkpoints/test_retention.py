from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from palaestra.checkpoints import retention
from palaestra.checkpoints.durable import commit, committed_epochs, verify
from palaestra.checkpoints.files import RealFileSystem, SaveFailed, temporary_name
from palaestra.checkpoints.retention import exclusive_change, in_use, reserve_if_unused, retain, sweep, to_remove
from palaestra.checkpoints.selection import survey
from palaestra.core.errors import DamagedFile, NotFound


class Recorder(RealFileSystem):
    def __init__(self):
        self.steps = []

    def rename(self, source, target):
        self.steps.append(("rename", target.name))
        super().rename(source, target)

    def unlink(self, path):
        self.steps.append(("unlink", path.name))
        super().unlink(path)

    def fsync_directory(self, directory):
        self.steps.append(("sync", ""))
        super().fsync_directory(directory)


@pytest.fixture
def make(tmp_path, describe):
    def commits(*epochs, scores=None):
        for epoch in epochs:
            parts = {f"model_{epoch:04d}.safetensors": b"w", f"trainer_state_{epoch:04d}.pt": b"s"}
            commit(tmp_path, epoch, parts, describe(epoch, score=(scores or {}).get(epoch)))
        return survey(tmp_path).checkpoints

    return commits


@pytest.mark.parametrize(
    ("scores", "keep", "gone"),
    [
        ({}, 1, [1, 2, 3]),
        ({}, 0, [1, 2, 3]),
        ({}, 3, [1]),
        ({}, 9, []),
        ({2: -5.0}, 1, [1, 3]),
        ({1: 7.0, 2: 7.0}, 1, [1, 3]),
        ({1: 9.0, 4: 1.0}, 1, [2, 3]),
    ],
)
def test_the_newest_and_the_best_always_stay(describe, scores, keep, gone):
    checkpoints = [describe(epoch, score=scores.get(epoch)) for epoch in (1, 2, 3, 4)]
    assert [one.epoch for one in to_remove(checkpoints, keep)] == gone


def test_the_newest_is_so_by_number(describe):
    assert [one.epoch for one in to_remove([describe(10000), describe(9999)], 1)] == [9999]


def test_the_files_after_a_cleanup_are_counted(tmp_path, make):
    removed = retain(tmp_path, make(1, 2, 3, 4, scores={1: 5.0}), keep=2, keep_trainer_states=1)
    assert removed.epochs == (2,)
    assert removed.trainer_states == (1, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model_0001.safetensors",
        "model_0001.yaml",
        "model_0003.safetensors",
        "model_0003.yaml",
        "model_0004.safetensors",
        "model_0004.yaml",
        "trainer_state_0004.pt",
    ]
    for epoch in (1, 3, 4):
        verify(tmp_path, epoch)


def test_one_in_use_is_kept_until_it_is_free(tmp_path, make):
    found = make(1, 2, 3)
    with in_use(tmp_path, 1):
        assert retain(tmp_path, found, keep=1, keep_trainer_states=1).epochs == (2,)
    assert committed_epochs(tmp_path) == [1, 3]
    assert retain(tmp_path, survey(tmp_path).checkpoints, keep=1, keep_trainer_states=1).epochs == (1,)


@pytest.mark.fault("C16")
def test_the_sidecar_goes_first_and_for_good(tmp_path, make):
    recorder = Recorder()
    retain(tmp_path, make(1, 2), keep=1, keep_trainer_states=1, fs=recorder)
    assert recorder.steps == [
        ("unlink", "model_0001.yaml"),
        ("sync", ""),
        ("unlink", "model_0001.safetensors"),
        ("unlink", "trainer_state_0001.pt"),
    ]


def test_a_state_is_dropped_only_when_no_sidecar_names_it_any_more(tmp_path, make):
    recorder = Recorder()
    retain(tmp_path, make(1, 2), keep=2, keep_trainer_states=1, fs=recorder)
    assert recorder.steps == [("rename", "model_0001.yaml"), ("sync", ""), ("unlink", "trainer_state_0001.pt")]


@pytest.mark.fault("C15")
def test_the_sweep_takes_what_the_dead_left_and_nothing_else(tmp_path, make):
    found = make(5, 6)
    alive, dead = tmp_path / temporary_name("model_0007.yaml"), tmp_path / ".tmp-1-1-model_0007.yaml"
    old, new = tmp_path / "model_0001.safetensors", tmp_path / "model_0009.safetensors"
    strange = tmp_path / "notes.txt"
    for path in (alive, dead, old, new, strange):
        path.write_bytes(b"x")
    assert sweep(tmp_path, found, keep=2) == [dead, old]
    assert all(path.exists() for path in (alive, new, strange))
    assert not any(path.exists() for path in (dead, old))
    assert committed_epochs(tmp_path) == [5, 6]


@pytest.mark.parametrize(("keep", "goes"), [(2, False), (1, True), (0, True)])
def test_the_sweep_leaves_data_between_the_newest_that_are_kept(tmp_path, make, keep, goes):
    found = make(5, 8)
    between = tmp_path / "model_0006.safetensors"
    between.write_bytes(b"x")
    assert sweep(tmp_path, found, keep) == ([between] if goes else [])
    assert between.exists() != goes


HOLD = """
import sys
from pathlib import Path
from palaestra.checkpoints.retention import in_use
with in_use(Path(sys.argv[1]), 1):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "model_0001.safetensors").write_bytes(b"w")
    return tmp_path


def test_one_writer_at_a_time(directory):
    with (
        exclusive_change(directory),
        pytest.raises(SaveFailed, match="locked by another"),
        exclusive_change(directory, 0.01),
    ):
        pass
    with exclusive_change(directory, 0.01):
        pass


def test_a_directory_that_is_not_there_cannot_be_changed(tmp_path):
    with pytest.raises(SaveFailed, match="No such file"), exclusive_change(tmp_path / "gone"):
        pass


def test_a_file_in_the_place_of_the_directory_cannot_be_changed(directory):
    with pytest.raises(SaveFailed, match="Not a directory"), exclusive_change(directory / "model_0001.safetensors"):
        pass


def test_a_link_in_the_place_of_weights_is_refused_and_not_followed(directory):
    (directory / "model_0002.safetensors").symlink_to("model_0001.safetensors")
    with pytest.raises(DamagedFile, match=r"model_0002\.safetensors cannot be opened"), in_use(directory, 2):
        pass


def test_a_pipe_in_the_place_of_weights_does_not_hang(directory):
    os.mkfifo(directory / "model_0002.safetensors")
    with in_use(directory, 2), reserve_if_unused(directory, 2) as is_free:
        assert is_free is False


def test_what_is_in_use_is_not_unused(directory):
    with in_use(directory, 1), in_use(directory, 1):
        with reserve_if_unused(directory, 1) as is_free:
            assert is_free is False
    with reserve_if_unused(directory, 1) as is_free:
        assert is_free is True


def test_nothing_is_written_for_a_lock(directory):
    with exclusive_change(directory), in_use(directory, 1):
        assert [path.name for path in directory.iterdir()] == ["model_0001.safetensors"]


def test_what_is_not_there_cannot_be_used(directory):
    with pytest.raises(NotFound), in_use(directory, 2):
        pass


def test_a_killed_reader_leaves_no_lock(directory):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout.readline() == b"held\n"
        with reserve_if_unused(directory, 1) as is_free:
            assert not is_free
        child.send_signal(signal.SIGKILL)
        child.wait()
    with reserve_if_unused(directory, 1) as is_free:
        assert is_free


def test_who_waits_comes_in_as_soon_as_the_other_leaves(directory, monkeypatch):
    slept, first = [], exclusive_change(directory)
    first.__enter__()

    def leave(seconds):
        slept.append(seconds)
        first.__exit__(None, None, None)

    monkeypatch.setattr(retention.time, "sleep", leave)
    with exclusive_change(directory):
        assert slept == [0.005]


def test_nobody_waits_longer_than_a_minute_unless_told_to(directory, monkeypatch):
    slept = []
    with exclusive_change(directory):
        monkeypatch.setattr(retention.time, "sleep", slept.append)
        monkeypatch.setattr(retention.time, "monotonic", iter([0.0, 60.0, 60.1]).__next__)
        with pytest.raises(SaveFailed, match="for 60 s"), exclusive_change(directory):
            pass
    assert len(slept) == 1, "at 60 s sharp it is asked once more"


@pytest.mark.parametrize("successor", [None, b"another", "link"])
def test_one_that_goes_before_it_is_held_is_not_there(directory, monkeypatch, successor):
    """Retention removes it, and a save may already have written that epoch anew."""
    open_it = retention._open_if_there

    def open_too_late(path):
        descriptor = open_it(path)
        path.rename(path.with_name("gone"))  # and not unlinked: a new file would get its number
        if successor == "link":
            path.symlink_to("gone")
        elif successor is not None:
            path.write_bytes(successor)
        return descriptor

    monkeypatch.setattr(retention, "_open_if_there", open_too_late)
    with pytest.raises(NotFound, match="was removed just now"), in_use(directory, 1):
        pass


def test_what_is_not_there_is_used_by_nobody(directory):
    with reserve_if_unused(directory, 2) as is_free:
        assert is_free


def test_nothing_stays_open(directory):
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with exclusive_change(directory), in_use(directory, 1):
        pass
    with reserve_if_unused(directory, 1):
        pass
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
