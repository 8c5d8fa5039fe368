import os
import signal
import socket

import pytest

from palaestra.runner.parent import LAUNCHER, die_with_launcher


def in_child(work) -> int:
    """How a forked process that does `work` ends."""
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.timeout(20)
def test_a_rank_ends_with_its_launcher():
    pipe, kept_open = os.pipe()

    def parent():
        if not os.fork():
            os.close(pipe)
            die_with_launcher()
            os.write(kept_open, b"x")  # from now on the kernel watches
            signal.pause()
        os.read(pipe, 1)

    assert in_child(parent) == 0
    os.close(kept_open)
    assert os.read(pipe, 1) == b""  # the grandchild had the other end, and is gone
    os.close(pipe)


def test_a_launcher_that_is_gone_already_is_not_survived(monkeypatch):
    monkeypatch.setenv(LAUNCHER, "1")
    assert in_child(die_with_launcher) == -signal.SIGKILL


@pytest.fixture
def torchrun_at(monkeypatch):
    """As torchrun describes itself to its ranks; gives the socket at which it would listen."""
    with socket.socket() as agent:
        agent.bind(("127.0.0.1", 0))
        monkeypatch.delenv(LAUNCHER, raising=False)
        monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(agent.getsockname()[1]))
        yield agent


def test_a_torchrun_that_ended_before_the_kernel_was_asked_is_not_survived(torchrun_at):
    assert in_child(die_with_launcher) == -signal.SIGKILL


def test_a_torchrun_that_listens_is_no_reason_to_end(torchrun_at):
    torchrun_at.listen()
    assert in_child(die_with_launcher) == 0


def test_a_launcher_that_lives_is_no_reason_to_end(monkeypatch):
    monkeypatch.setenv(LAUNCHER, str(os.getpid()))
    assert in_child(die_with_launcher) == 0
