from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from textwrap import dedent

import pytest

from palaestra.loggers.wandb.process import messages_from, run_session


@pytest.fixture
def connection():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(ours), closing(theirs):
        yield ours, theirs


def test_messages_come_in_order_until_the_stream_ends(connection):
    ours, theirs = connection
    for number in range(100):
        ours.send(json.dumps({"kind": "table", "number": number}).encode())
    ours.close()
    assert [message["number"] for message in messages_from(theirs)] == list(range(100))


def test_the_socket_is_emptied_while_wandb_is_slow(connection):
    ours, theirs = connection
    messages = messages_from(theirs)
    ours.send(b'{"kind":"start"}')
    assert next(messages) == {"kind": "start"}
    ours.settimeout(10.0)
    for _ in range(1500):  # far more than a socket holds; nobody calls next() meanwhile
        ours.send(b'{"kind":"table","filler":"' + b"x" * 2000 + b'"}')
    ours.close()
    assert sum(1 for _ in messages) == 1500


def test_a_trainer_that_leaves_at_once_starts_no_run(monkeypatch):
    begun = []
    monkeypatch.setattr("palaestra.loggers.wandb.process.WandbSession", lambda *given: begun.append(given))
    run_session(iter(()))
    assert begun == []


def test_a_process_whose_parent_is_already_gone_leaves():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "palaestra.loggers.wandb.process", str(theirs.fileno())]
    with theirs:
        ours.close()  # nothing will ever be said
        for parent, code in ((str(os.getpid()), 0), ("1", -signal.SIGKILL)):
            assert subprocess.run([*command, parent], pass_fds=[theirs.fileno()], timeout=60).returncode == code


def test_ctrl_c_does_not_end_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "wandb.py").write_text(
        dedent("""
        import os, signal
        os.kill(os.getpid(), signal.SIGINT)
        print("still here", flush=True)
        raise SystemExit(3)
        """)
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(b'{"kind":"start"}')
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background inherits "ignore"
    with ours, theirs:
        done = subprocess.run(
            [sys.executable, "-m", "palaestra.loggers.wandb.process", str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            capture_output=True,
            text=True,
            timeout=60,
        )
    signal.signal(signal.SIGINT, before)
    assert (done.stdout, done.returncode) == ("still here\n", 3)
