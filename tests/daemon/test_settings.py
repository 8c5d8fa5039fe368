from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.daemon.errors import StoreInUse, StoreRefused
from palaestra.daemon.settings import DaemonDirectory, DaemonSettings, machine_resources


def test_the_machine_is_what_this_process_may_use():
    found = machine_resources()
    assert found.cpus == len(os.sched_getaffinity(0))
    total_kb = int(Path("/proc/meminfo").read_text().split()[1])
    assert found.memory_mb == total_kb // 1024


def test_the_defaults_notice_a_dead_worker_within_two_seconds():
    assert DaemonSettings().tick_seconds + 0.5 < 2.0  # the keeper lingers half a second for what was left behind


@pytest.mark.fault("G9")
def test_a_second_daemon_is_refused_with_the_pid_of_the_first(home):
    with DaemonDirectory(home).create().lock():
        with pytest.raises(StoreInUse, match=f"process {os.getpid()}") as refused:
            with DaemonDirectory(home).lock():
                raise AssertionError("two daemons on one store")
        assert refused.value.pid == os.getpid()
    with DaemonDirectory(home).lock():
        assert DaemonDirectory(home).lock_file.exists()


@pytest.mark.fault("G9")
def test_the_lock_of_a_killed_daemon_is_free(home):
    code = (
        "import os, signal, pathlib; from palaestra.daemon.settings import DaemonDirectory\n"
        f"with DaemonDirectory(pathlib.Path({str(home)!r})).create().lock(): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -9
    with DaemonDirectory(home).lock():
        assert DaemonDirectory(home).lock_file.read_text().strip() == str(os.getpid())


def test_temporary_files_of_a_killed_daemon_are_removed(home):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    location = DaemonDirectory(home).create()
    left = [folder / f".tmp-{process.pid}-1-daemon.json" for folder in (home, location.path)]
    for path in left:
        path.write_text("{")
    with location.lock():
        assert [path for path in left if path.exists()] == []


def test_the_daemon_directory_is_private(home):
    assert DaemonDirectory(home).create().path.stat().st_mode & 0o077 == 0


def test_an_unwritable_directory_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreRefused, match="Cannot write to the runs directory .*file"):
        DaemonDirectory(tmp_path / "file").create()
