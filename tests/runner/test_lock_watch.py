"""A process whose compiled code hangs with Python's global interpreter lock ends; one that was only stopped goes on."""

import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("palaestra.runner.lock_watch", reason="no compiler has been here")

WATCHED = """
import ctypes, faulthandler, sys, time
from palaestra.runner.lock_watch import LockWatch

faulthandler.enable()
watch = LockWatch(float(sys.argv[1]), "no Python code has run\\n")
print("watched", flush=True)
{work}
watch.close()
print("closed", flush=True)
"""


def start(work, limit):
    arguments = [sys.executable, "-c", WATCHED.format(work=work), str(limit)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "watched\n"
    return process


def test_code_that_hangs_with_the_lock_ends_the_process_and_the_stack_says_where():
    process = start("def hang():\n    ctypes.PyDLL(None).sleep(3600)\nhang()", limit=0.5)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGABRT
    assert out == ""
    assert err.startswith("no Python code has run\n")
    assert "in hang" in err


def test_whoever_feeds_it_goes_on_though_it_was_stopped_for_longer_than_the_limit():
    """Each look counts a second at most, however long the process stood still."""
    process = start("for _ in range(40):\n    watch.feed()\n    time.sleep(0.05)", limit=2.0)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3.0)
    os.kill(process.pid, signal.SIGCONT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "closed\n", "")


def test_one_that_is_closed_watches_no_more():
    process = start("watch.close()\nctypes.PyDLL(None).usleep(900_000)", limit=0.3)
    assert process.communicate(timeout=60) == ("closed\n", "")
