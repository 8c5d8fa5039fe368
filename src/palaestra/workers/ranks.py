"""The processes of one training on this machine: started, signalled, waited for, and never left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palaestra.training.place import LISTENING
from palaestra.workers.account import PIPE, Account, read
from palaestra.workers.parent import LAUNCHER
from palaestra.workers.signals import STOPPING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from palaestra.workers.job import Job

LOOPBACK = "127.0.0.1"
STANDARD_ERROR = 2


class Rank:
    """One process, in a process group of its own: Ctrl-C in a terminal reaches it once, through the launcher."""

    def __init__(self, number: int, world_size: int, listening: socket.socket) -> None:
        self.number = number
        self.ended_at: float | None = None
        self.was_killed = False  # by us
        self._pipe, told = os.pipe()
        os.set_blocking(self._pipe, False)
        variables = {
            **os.environ,
            "RANK": str(number),
            "LOCAL_RANK": str(number),
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": LOOPBACK,
            "MASTER_PORT": str(listening.getsockname()[1]),
            LISTENING: str(listening.fileno()),
            LAUNCHER: str(os.getpid()),
            PIPE: str(told),
            "TORCH_CPP_LOG_LEVEL": os.environ.get("TORCH_CPP_LOG_LEVEL", "ERROR"),  # else a lost peer fills the screen
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "palaestra.workers"],
            stdin=subprocess.PIPE,
            stdout=None if number == 0 else STANDARD_ERROR,
            env=variables,
            pass_fds=(told, *((listening.fileno(),) if number == 0 else ())),
            process_group=0,
        )
        os.close(told)

    def give(self, job: Job) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(job.to_json().encode())
            self.process.stdin.close()
        except BrokenPipeError:  # it ended before it could listen; how is told by its exit code
            return

    def has_ended(self) -> bool:
        if self.process.poll() is None:
            return False
        if self.ended_at is None:
            self.ended_at = time.monotonic()
        return True

    def account(self) -> Account | None:
        """What it said; None when it said nothing. Asked once, after its end."""
        try:
            return read(os.read(self._pipe, 1 << 20))
        except BlockingIOError:
            return None
        finally:
            os.close(self._pipe)

    def kill(self) -> None:
        if not self.has_ended():
            self.was_killed = True
            self.process.kill()


@contextmanager
def started(job: Job, count: int) -> Iterator[list[Rank]]:
    """All ranks, with their job; whatever happens in the block, none of them is alive after it."""
    ranks: list[Rank] = []
    try:
        with socket.socket() as listening:
            listening.bind((LOOPBACK, 0))
            listening.listen(128)
            for number in range(count):
                ranks.append(Rank(number, count, listening))  # noqa: PERF401  those before it must be ended if it fails
        for rank in ranks:
            rank.give(job)
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()
            rank.process.wait()


@contextmanager
def forwarded_signals(ranks: list[Rank]) -> Iterator[list[int]]:
    """Signals that would stop a training go to every rank, once each; those that came, in order."""
    came: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        for rank in ranks:
            rank.process.send_signal(number)

    before = {}
    try:
        for number in STOPPING:
            before[number] = signal.signal(number, forward)
    except ValueError:  # not in the main thread: nothing can be listened to
        before.clear()
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
