"""Daemons over small scripts, in a directory in memory where that can be had."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # daemon_scripts, also for the processes that tests start

from daemon_scripts import end_and_remove, open_daemon

MONITOR_TIMEOUT_SECONDS = 60.0
LONGEST_TURN_SECONDS = 1.0  # of one look; what takes longer was stopped with SIGSTOP, or the machine slept
ATTEMPTS = 3


@pytest.fixture
def home():
    memory = Path("/dev/shm")
    location = memory if os.access(memory, os.W_OK) else None
    with TemporaryDirectory(prefix="palaestra-daemon-", dir=location) as path:
        root = Path(path) / "runs"
        yield root
        end_and_remove(root)


@pytest.fixture
def serve(home):
    """Open a daemon over `home`; it is closed at the end of the test, if not before."""
    with ExitStack() as stack:
        yield lambda **changes: stack.enter_context(open_daemon(home, **changes))


@pytest.fixture
def quickest():
    """`quickest(attempt, limit)`: the least seconds of at most three attempts, each of which says what it took.

    A program that is too slow is so every time; a machine that is busy with others is not.
    """

    def measure(attempt, limit):
        seconds = []
        while len(seconds) < ATTEMPTS and min(seconds, default=limit) >= limit:
            seconds.append(attempt())
        return min(seconds)

    return measure


@pytest.fixture
def wait_until():
    def wait(condition, what, seconds=MONITOR_TIMEOUT_SECONDS):
        """Time in which we were stopped ourselves is not counted."""
        left, before = seconds, time.monotonic()
        while left > 0:
            reply = condition()
            if reply:
                return reply
            time.sleep(0.005)
            now = time.monotonic()
            left, before = left - min(now - before, LONGEST_TURN_SECONDS), now
        raise AssertionError(f"waited {seconds:g} s in vain for {what}")

    return wait
