"""A full and a read-only disk, real ones: a small file system that only this test can see."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("full_disk.py")


@pytest.mark.fault("G11")
def test_a_full_or_read_only_disk_refuses_requests_and_does_not_affect_running_workers(tmp_path):
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount of one's own can be had here (unshare -Urm)")
    root, outside = tmp_path / "runs", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    command = 'mount -t tmpfs -o size=2m none "$2" && exec "$0" "$1" "$2" "$3"'
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", command, sys.executable, str(PROGRAM), str(root), str(outside)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"full: The runs directory {root} cannot be written: No space left on device.",
        "left: True",
        "worker: whole",
        "then: finished finished",
        f"read-only: {root}/.palaestra/daemon.lock cannot be opened: Read-only file system. Is the directory writable?",
        "at last: finished",
    ]
