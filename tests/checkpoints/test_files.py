from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from palaestra.checkpoints import files
from palaestra.checkpoints.files import (
    CHUNK_BYTES,
    RealFileSystem,
    SaveFailed,
    epoch_of_data,
    epoch_of_sidecar,
    is_temporary,
    model_name,
    open_regular_file,
    owner_is_dead,
    read_regular_file,
    sidecar_name,
    temporary_name,
    trainer_state_name,
)
from palaestra.core.errors import DamagedFile, PalaestraError


@pytest.mark.parametrize(
    ("epoch", "sidecar"),
    [(0, "model_0000.yaml"), (10, "model_0010.yaml"), (9999, "model_9999.yaml"), (10000, "model_10000.yaml")],
)
def test_a_name_gives_its_epoch_back(epoch, sidecar):
    assert sidecar_name(epoch) == sidecar
    assert epoch_of_sidecar(sidecar) == epoch
    assert epoch_of_data(model_name(epoch)) == epoch
    assert epoch_of_data(trainer_state_name(epoch)) == epoch


@pytest.mark.parametrize(
    "name",
    [
        "model_10.yaml",
        "model_00010.yaml",
        "model_-001.yaml",
        "model_0010.yaml.bak",
        ".model_0010.yaml",
        "model_\u0660\u0660\u0661\u0660.yaml",
        "model_latest.yaml",
    ],
)
def test_names_that_were_never_given_out_have_no_epoch(name):
    assert epoch_of_sidecar(name) is None


@pytest.mark.fault("C15")
def test_a_temporary_file_of_this_process_is_alive():
    assert is_temporary(temporary_name("x.yaml"))
    assert not owner_is_dead(temporary_name("x.yaml"))


@pytest.mark.fault("C15")
def test_a_temporary_file_of_an_ended_process_is_dead():
    child = subprocess.run(
        [sys.executable, "-c", "from palaestra.checkpoints.files import temporary_name; print(temporary_name('x'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    name = child.stdout.strip()
    assert is_temporary(name)
    assert owner_is_dead(name)


def test_another_process_with_the_same_pid_is_not_the_owner():
    assert owner_is_dead(f".tmp-{os.getpid()}-1-x.yaml")


def test_the_start_in_a_name_is_the_one_that_the_system_tells_of_this_process():
    own = psutil.Process()
    ticks = int(temporary_name("x").split("-")[2])
    began = psutil.boot_time() + ticks / os.sysconf("SC_CLK_TCK")
    assert abs(began - own.create_time()) < 2


def test_where_there_is_no_proc_another_way_is_found(monkeypatch):
    own, nobody = os.getpid(), 2**22 + 1
    monkeypatch.setattr(files, "Path", lambda _: Path("/nowhere/at/all"))
    assert files._process_start(own) is None, "there is a /proc, and it does not know the process"
    monkeypatch.setattr(files, "_PROC_IS_THERE", False)
    assert files._process_start(own) == int(psutil.Process(own).create_time())
    assert files._process_start(nobody) is None


def test_data_of_no_epoch_has_none():
    assert [epoch_of_data(name) for name in ("model_10.safetensors", "model_00010.safetensors", "x.pt")] == [None] * 3


def test_other_names_are_not_temporary_files():
    assert not owner_is_dead("model_0010.yaml")
    assert not owner_is_dead(".tmp-mine")


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


def test_a_failed_save_is_told_apart_from_a_damaged_file():
    assert issubclass(SaveFailed, PalaestraError)
    assert not issubclass(SaveFailed, DamagedFile)
    assert SaveFailed("full").exit_code == 1
