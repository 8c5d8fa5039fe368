import os
import subprocess
import sys

import pytest

from palaestra.daemon.errors import StoreInUse, StoreRefused
from palaestra.daemon.home import DaemonHome


@pytest.mark.fault("G9")
def test_a_second_daemon_is_refused_with_the_pid_of_the_first(home):
    with DaemonHome(home).make().held():
        with pytest.raises(StoreInUse, match=f"process {os.getpid()}") as refused:
            with DaemonHome(home).held():
                raise AssertionError("two daemons on one store")
        assert refused.value.pid == os.getpid()
    with DaemonHome(home).held():
        assert DaemonHome(home).lock_file.exists()


@pytest.mark.fault("G9")
def test_the_lock_of_a_killed_daemon_is_free(home):
    code = (
        "import os, signal, pathlib; from palaestra.daemon.home import DaemonHome\n"
        f"with DaemonHome(pathlib.Path({str(home)!r})).make().held(): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -9
    with DaemonHome(home).held():
        assert DaemonHome(home).lock_file.read_text().strip() == str(os.getpid())


def test_what_a_killed_daemon_left_half_written_is_cleared_away(home):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    place = DaemonHome(home).make()
    left = [folder / f".tmp-{process.pid}-1-daemon.json" for folder in (home, place.path)]
    for path in left:
        path.write_text("{")
    with place.held():
        assert [path for path in left if path.exists()] == []


def test_what_is_the_daemon_s_own_is_closed_to_others(home):
    assert DaemonHome(home).make().path.stat().st_mode & 0o077 == 0


def test_a_place_that_cannot_be_written_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreRefused, match="file.*cannot be written"):
        DaemonHome(tmp_path / "file").make()
