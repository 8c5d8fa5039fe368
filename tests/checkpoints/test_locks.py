import os
import signal
import subprocess
import sys

import pytest

from palaestra.checkpoints import locks
from palaestra.checkpoints.errors import SaveFailed
from palaestra.checkpoints.locks import changing, in_use, unused
from palaestra.core.errors import DamagedFile, NotFound

HOLD = """
import sys
from pathlib import Path
from palaestra.checkpoints.locks import in_use
with in_use(Path(sys.argv[1]), 1):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "model_0001.safetensors").write_bytes(b"w")
    return tmp_path


def test_one_writer_at_a_time(directory):
    with changing(directory), pytest.raises(SaveFailed, match="locked by another"), changing(directory, 0.01):
        pass
    with changing(directory, 0.01):
        pass


def test_a_directory_that_is_not_there_cannot_be_changed(tmp_path):
    with pytest.raises(SaveFailed, match="No such file"), changing(tmp_path / "gone"):
        pass


def test_a_file_in_the_place_of_the_directory_cannot_be_changed(directory):
    with pytest.raises(SaveFailed, match="Not a directory"), changing(directory / "model_0001.safetensors"):
        pass


def test_a_link_in_the_place_of_weights_is_refused_and_not_followed(directory):
    (directory / "model_0002.safetensors").symlink_to("model_0001.safetensors")
    with pytest.raises(DamagedFile, match=r"model_0002\.safetensors cannot be opened"), in_use(directory, 2):
        pass


def test_a_pipe_in_the_place_of_weights_does_not_hang(directory):
    os.mkfifo(directory / "model_0002.safetensors")
    with in_use(directory, 2), unused(directory, 2) as is_free:
        assert is_free is False


def test_what_is_in_use_is_not_unused(directory):
    with in_use(directory, 1), in_use(directory, 1):
        with unused(directory, 1) as is_free:
            assert is_free is False
    with unused(directory, 1) as is_free:
        assert is_free is True


def test_nothing_is_written_for_a_lock(directory):
    with changing(directory), in_use(directory, 1):
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
        with unused(directory, 1) as is_free:
            assert not is_free
        child.send_signal(signal.SIGKILL)
        child.wait()
    with unused(directory, 1) as is_free:
        assert is_free


def test_who_waits_comes_in_as_soon_as_the_other_leaves(directory, monkeypatch):
    slept, first = [], changing(directory)
    first.__enter__()

    def leave(seconds):
        slept.append(seconds)
        first.__exit__(None, None, None)

    monkeypatch.setattr(locks.time, "sleep", leave)
    with changing(directory):
        assert slept == [0.005]


def test_nobody_waits_longer_than_a_minute_unless_told_to(directory, monkeypatch):
    slept = []
    with changing(directory):
        monkeypatch.setattr(locks.time, "sleep", slept.append)
        monkeypatch.setattr(locks.time, "monotonic", iter([0.0, 60.0, 60.1]).__next__)
        with pytest.raises(SaveFailed, match="for 60 s"), changing(directory):
            pass
    assert len(slept) == 1, "at 60 s sharp it is asked once more"


@pytest.mark.parametrize("successor", [None, b"another", "link"])
def test_one_that_goes_before_it_is_held_is_not_there(directory, monkeypatch, successor):
    """Retention removes it, and a save may already have written that epoch anew."""
    open_it = locks._open_if_there

    def open_too_late(path):
        descriptor = open_it(path)
        path.rename(path.with_name("gone"))  # and not unlinked: a new file would get its number
        if successor == "link":
            path.symlink_to("gone")
        elif successor is not None:
            path.write_bytes(successor)
        return descriptor

    monkeypatch.setattr(locks, "_open_if_there", open_too_late)
    with pytest.raises(NotFound, match="was removed just now"), in_use(directory, 1):
        pass


def test_what_is_not_there_is_used_by_nobody(directory):
    with unused(directory, 2) as is_free:
        assert is_free


def test_nothing_stays_open(directory):
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with changing(directory), in_use(directory, 1):
        pass
    with unused(directory, 1):
        pass
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
