"""kill -9, a full disk and a broken disk at each single system call of a commit, injected by strace."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.checkpoints.durable import commit, committed_epochs, verify
from palaestra.checkpoints.files import is_temporary
from palaestra.checkpoints.replay_segments import read_from, segments_of
from palaestra.checkpoints.replay_segments import verify as verify_segments
from palaestra.checkpoints.selection import open_latest, survey

SCRIPT = Path(__file__).with_name("one_commit.py")
spec = importlib.util.spec_from_file_location("one_commit", SCRIPT)
one_commit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(one_commit)


def strace_works():
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not strace_works(), reason="strace is not there or may not trace (apt-get install strace)"),
]

# fsync: two data files, the directory, the sidecar, the directory. write: two data files, the sidecar.
COMMIT_CALLS = (
    [("fsync", n) for n in range(1, 6)] + [("rename", n) for n in range(1, 4)] + [("write", n) for n in range(1, 4)]
)
ERRORS = ["error=ENOSPC", "error=EIO"]
KILL = "signal=SIGKILL"


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / "checkpoints"
    made.mkdir()
    for epoch in (1, 2):
        commit(made, epoch, one_commit.parts(epoch), one_commit.described(epoch))
    return made


def cut_off(directory, action, call, number, fault):
    """What the process could still say; empty when it was killed."""
    trace = directory.parent / "trace"
    command = [sys.executable, "-B", str(SCRIPT), action, str(directory)]
    done = subprocess.run(
        [
            "strace",
            "-f",
            "-o",
            str(trace),
            "-e",
            f"trace={call}",
            "-e",
            f"inject={call}:{fault}:when={number}",
            *command,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    seen = trace.read_text()
    assert "INJECTED" in seen or "SIGKILL" in seen, f"{call} {number} never happened: {done.stderr[-500:]}"
    return done.stdout


def check_intact(directory, said):
    opened = open_latest(directory)
    epoch = opened.checkpoint.epoch
    assert opened.refused == ()
    assert survey(directory).refused == ()
    assert opened.parts == {name: one_commit.parts(epoch)[name] for name in opened.parts}
    assert verify(directory, 2)[1]
    assert epoch == 3 or "ACK" not in said


@pytest.mark.fault("C2")
@pytest.mark.parametrize(("call", "number"), COMMIT_CALLS)
def test_killed_at_each_call_of_a_commit(directory, call, number):
    check_intact(directory, cut_off(directory, "commit", call, number, KILL))


@pytest.mark.fault("C4")
@pytest.mark.parametrize(
    ("call", "number", "fault"),
    [
        ("write", 1, "error=ENOSPC"),
        ("fsync", 2, "error=EIO"),
        ("rename", 2, "error=ENOSPC"),
        ("write", 3, "error=ENOSPC"),
        ("fsync", 4, "error=EIO"),
    ],
)
def test_a_failing_disk_at_some_calls_of_a_commit(directory, call, number, fault):
    check_failure(directory, call, number, fault)


@pytest.mark.fault("C4")
@pytest.mark.chaos
@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize(("call", "number"), COMMIT_CALLS)
def test_a_failing_disk_at_each_call_of_a_commit(directory, call, number, fault):
    check_failure(directory, call, number, fault)


def check_failure(directory, call, number, fault):
    before = sorted(path.name for path in directory.iterdir())
    said = cut_off(directory, "commit", call, number, fault)
    assert said.startswith("FAILED")
    assert "What was saved before is intact" in said
    check_intact(directory, said)
    assert not [path for path in directory.iterdir() if is_temporary(path.name)]
    if (call, number) != ("fsync", 5):
        assert sorted(path.name for path in directory.iterdir()) == before


ROWS_CALLS = [("fsync", 42), ("rename", 19), ("write", 30), ("unlink", 6), ("ftruncate", 5)]  # how many of each


def check_rows(directory, said):
    """The newest checkpoint has all its rows, and what was acknowledged is there."""
    found = [one for one in survey(directory).checkpoints if one.replay_segments]
    acknowledged = [int(line.split()[1]) for line in said.splitlines() if line.startswith("saved")]
    if not found:
        assert not acknowledged
        return
    assert found[-1].epoch >= max(acknowledged, default=0)
    for one in found:
        verify(directory, one.epoch)
        segments = segments_of(one)
        verify_segments(directory, segments)
        rows = b"".join(data for segment in segments for data in read_from(directory, segment, 0))
        assert rows == one_commit.row_bytes(0, 10 * one.epoch)


@pytest.mark.fault("C2")
@pytest.mark.parametrize(
    ("call", "number"), [("fsync", 8), ("fsync", 20), ("ftruncate", 1), ("write", 12), ("rename", 9)]
)
def test_killed_at_some_calls_of_saves_with_a_replay_buffer(tmp_path, call, number):
    check_rows(tmp_path, cut_off(tmp_path, "rows", call, number, KILL))


@pytest.mark.fault("C2")
@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault", [KILL, "error=ENOSPC", "error=EIO"])
@pytest.mark.parametrize(("call", "count"), ROWS_CALLS)
def test_cut_off_at_each_call_of_saves_with_a_replay_buffer(tmp_path, call, count, fault, figure):
    for number in range(1, count + 1):
        directory = tmp_path / str(number)
        directory.mkdir()
        check_rows(directory, cut_off(directory, "rows", call, number, fault))
    figure(f"{fault} at each {call} of four saves with a replay buffer", count)


@pytest.mark.fault("C16")
@pytest.mark.parametrize(
    ("action", "call", "number"),
    [
        ("retain", "unlink", 1),
        ("retain", "unlink", 2),
        ("retain", "unlink", 3),
        ("retain", "fsync", 1),
        ("drop", "rename", 1),
        ("drop", "fsync", 1),
        ("drop", "fsync", 2),
        ("drop", "unlink", 1),
    ],
)
def test_killed_at_each_call_of_retention(directory, action, call, number):
    cut_off(directory, action, call, number, KILL)
    assert survey(directory).refused == ()
    assert open_latest(directory).parts == one_commit.parts(2)
    assert committed_epochs(directory)[-1] == 2
