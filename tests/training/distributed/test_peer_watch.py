"""Ends of real processes, as another process learns of them."""

import os
import signal
import subprocess
import sys

import pytest

from palaestra.training.distributed.peer_watch import UNKNOWN_END, PeerWatch, describe_process, read_end


@pytest.fixture
def peer():
    """A process that waits to be told to leave, described as it would describe itself."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "import sys; sys.exit(int(input()))"], stdin=subprocess.PIPE
    )
    machine = describe_process().rpartition(" ")[0]
    process.about = f"{machine} {process.pid}"
    yield process
    process.stdin.close()
    process.kill()
    process.wait()


@pytest.fixture
def watch():
    ends, opened = [], []

    def start(processes):
        opened.append(PeerWatch(processes, lambda *end: ends.append(end)))
        return opened[-1], ends

    yield start
    for each in opened:
        each.close()


def test_a_killed_process_is_named_with_its_signal(peer, watch):
    watching, ends = watch({0: describe_process(), 1: peer.about})
    peer.send_signal(signal.SIGKILL)
    assert watching.first_end(within=20.0) == (1, "was ended by SIGKILL")
    assert ends == [(1, "was ended by SIGKILL")]


def test_a_process_that_left_is_named_with_its_code(peer, watch):
    watching, _ = watch({0: describe_process(), 1: peer.about})
    peer.stdin.write(b"7\n")
    peer.stdin.flush()
    assert watching.first_end(within=20.0) == (1, "ended with exit code 7 and without a word")


def test_while_all_live_nobody_has_ended(peer, watch):
    watching, ends = watch({0: describe_process(), 1: peer.about})
    assert watching.first_end(within=0.0) is None
    assert ends == []


def test_processes_of_other_machines_are_not_mistaken_for_those_here(peer, watch):
    watching, _ = watch({0: describe_process(), 1: f"elsewhere {peer.pid}", 2: ""})
    peer.kill()
    peer.wait()
    assert watching.first_end(within=0.0) is None


def test_the_end_of_a_process_that_its_parent_has_reaped_is_unknown(peer):
    peer.kill()
    peer.wait()
    assert read_end(peer.pid) == UNKNOWN_END
    assert read_end(os.getpid()) == UNKNOWN_END
