from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from palaestra.core.errors import RunFailed
from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore
from palaestra.web.tensorboard import process
from palaestra.web.tensorboard.process import clear, start_tensorboard


@pytest.fixture
def directory(tmp_path):
    return RunStore(tmp_path / "runs").create(RunRequest("native", "cartpole", {}), {})


@pytest.fixture
def quick_child(monkeypatch, tmp_path):
    """A stand-in that listens at once, so that only our side is tested."""
    script = tmp_path / "child.py"
    script.write_text(
        textwrap.dedent(
            """
            import json, socket, sys
            asked = json.loads(sys.stdin.readline())
            print(json.dumps(asked), flush=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(asked["socket"])
            listener.listen()
            sys.stdin.read()
            """
        )
    )
    real = subprocess.Popen
    monkeypatch.setattr(
        process.subprocess, "Popen", lambda command, **more: real([sys.executable, str(script)], **more)
    )


def test_the_command_line_contains_no_secrets(directory, quick_child, tmp_path):
    board = start_tensorboard(tmp_path / "place", [("first", directory)])
    reports = json.loads((board.work_directory / "output").read_text())
    assert reports["prefix"] == f"/tensorboard/{board.key}"
    assert [path.name for path in Path(reports["logs"]).iterdir()] == ["first"]
    assert board.key not in " ".join(psutil.Process(board.process.pid).cmdline())
    assert board.work_directory.stat().st_mode & 0o077 == 0
    assert (board.work_directory / "s").is_socket()
    board.connect().close()
    board.stop()
    assert board.process.returncode is not None
    assert not board.work_directory.exists()


def test_an_evaluation_has_its_own_entry(directory, quick_child, tmp_path):
    (directory.tensorboard_eval / "events").write_text("x")
    board = start_tensorboard(tmp_path / "place", [("first", directory)])
    assert sorted(path.name for path in (board.work_directory / "logs").iterdir()) == ["first", "first (Eval)"]
    board.stop()


def test_a_long_path_is_supported(directory, quick_child, tmp_path):
    place = tmp_path / ("long" * 20) / ("long" * 20)
    board = start_tensorboard(place, [("first", directory)])
    board.connect().close()
    board.stop()
    assert list(place.iterdir()) == []


def test_a_process_that_dies_is_reported_with_its_last_line(directory, monkeypatch, tmp_path):
    real = subprocess.Popen
    command = [sys.executable, "-c", "import sys; sys.exit('no module named tensorboard')"]
    monkeypatch.setattr(process.subprocess, "Popen", lambda _, **more: real(command, **more))
    with pytest.raises(RunFailed, match="no module named tensorboard"):
        start_tensorboard(tmp_path / "place", [("first", directory)])
    assert list((tmp_path / "place").iterdir()) == []


def test_a_process_that_does_not_respond_is_stopped(directory, monkeypatch, tmp_path):
    real = subprocess.Popen
    monkeypatch.setattr(process, "START_SECONDS", 0.3)
    monkeypatch.setattr(process, "END_SECONDS", 0.1)
    started = []

    def sleeper(_, **more):
        started.append(real([sys.executable, "-c", "import time; time.sleep(60)"], **more))
        return started[-1]

    monkeypatch.setattr(process.subprocess, "Popen", sleeper)
    with pytest.raises(RunFailed, match="did not start"):
        start_tensorboard(tmp_path / "place", [("first", directory)])
    assert started[0].returncode == -signal.SIGKILL


def test_files_of_an_earlier_daemon_are_removed(tmp_path):
    (tmp_path / "place" / "key").mkdir(parents=True)
    clear(tmp_path / "place")
    clear(tmp_path / "place")
    assert not (tmp_path / "place").exists()


@pytest.mark.slow
def test_a_killed_daemon_leaves_no_tensorboard(directory, tmp_path):
    code = f"""
import pathlib, time
from palaestra.runs.directory import RunDirectory
from palaestra.web.tensorboard.process import start_tensorboard
directory = RunDirectory(pathlib.Path({str(directory.path)!r}))
board = start_tensorboard(pathlib.Path({str(tmp_path / "place")!r}), [("first", directory)])
print(board.process.pid, flush=True)
time.sleep(60)
"""
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(starter.stdout.readline()))
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    deadline = time.monotonic() + 60
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
