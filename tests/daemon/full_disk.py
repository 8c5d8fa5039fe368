"""`python full_disk.py ROOT OUTSIDE`, where ROOT is a small file system of its own: fill it, see what a daemon says.

Prints one line per fact; test_full_disk.py reads them.
"""

import errno
import subprocess
import sys
import time
from pathlib import Path

from daemon_scripts import open_daemon, script

from palaestra.core.errors import PalaestraError
from palaestra.daemon.errors import StoreRefused
from palaestra.runs.identity import is_run_id

WORKER = "import os, time\nwhile not os.path.exists({go!r}): time.sleep(0.02)\nopen({done!r}, 'w').write('whole')\n"


def fill(path):
    """To the last byte."""
    with path.open("wb", buffering=0) as stream:
        size = 1 << 16
        while size:
            try:
                stream.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2


def run_directories(root):
    return sorted(path.name for path in root.iterdir() if is_run_id(path.name))


def refusal(daemon):
    try:
        daemon.submit(script("pass"))
    except StoreRefused as error:
        return error.message
    return "accepted"


def wait_for_pid(daemon, run_id):
    while not daemon.get(run_id).record.pid:
        time.sleep(0.01)


def main(root, outside):
    go, done = outside / "go", outside / "done"
    with open_daemon(root) as daemon:
        running = daemon.submit(script(WORKER.format(go=str(go), done=str(done))))
        wait_for_pid(daemon, running.id)
        filler = root / "filler"
        fill(filler)
        print("full:", refusal(daemon))
        print("left:", run_directories(root) == [running.id])
        go.touch()
        while not done.exists():
            time.sleep(0.01)
        print("worker:", done.read_text())
        filler.unlink()
        print("then:", daemon.wait(running.id, 30).state, daemon.wait(daemon.submit(script("pass")).id, 30).state)
    subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True)
    try:
        with open_daemon(root):
            print("read-only: served")
    except PalaestraError as error:
        print("read-only:", error)
    subprocess.run(["mount", "-o", "remount,rw", str(root)], check=True)
    with open_daemon(root) as daemon:
        print("at last:", daemon.wait(daemon.submit(script("pass")).id, 30).state)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
