import os
import stat
import subprocess
import sys
from pathlib import Path

from palaestra.cluster import folders


def test_a_long_temporary_folder_is_not_too_long_for_sockets(monkeypatch, tmp_path):
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr(folders.tempfile, "gettempdir", lambda: str(deep))
    with folders.private_folder() as folder:
        assert len(str(folder)) <= folders.LONGEST
        outer = folder.parent
        assert stat.S_IMODE(outer.stat().st_mode) == 0o700
    assert not outer.exists()


def left_by_a_killed_process(base):
    code = f"""
import os, signal, tempfile
from palaestra.cluster.folders import private_folder
tempfile.tempdir = {str(base)!r}
with private_folder() as folder:
    print(folder.parent, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert killed.returncode == -9, killed.stderr
    return Path(killed.stdout.strip())


def test_what_a_killed_session_left_is_swept_and_what_lives_or_is_a_strangers_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "LONGEST", 1000)
    base = tmp_path
    monkeypatch.setattr(folders.tempfile, "gettempdir", lambda: str(base))
    unmarked = base / f"{folders.PREFIX}unmarked"
    unmarked.mkdir()
    dead = base / f"{folders.PREFIX}dead"
    dead.mkdir()
    (dead / folders.OWNER).write_text(f"{os.getpid()} 1.0")  # our pid, at another time somebody else's
    with folders.private_folder() as living:
        assert not dead.exists()
        with folders.private_folder():
            assert living.exists()
    assert unmarked.exists()


def test_a_killed_process_leaves_a_folder_that_the_next_session_knows_for_dead(tmp_path):
    left = left_by_a_killed_process("/tmp")
    assert left.exists()
    folders.sweep(Path("/tmp"))
    assert not left.exists()
