"""The processes of one training on this machine: started, signalled, waited for, and never left behind."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from palaestra.core.child_process import STANDARD_ERROR, LineChild, module_command
from palaestra.runner.launcher import LAUNCHER, REPORT_VARIABLE, ExitReport, receive_report
from palaestra.runner.signals import STOPPING
from palaestra.training.distributed.rank_info import LISTENING, MEMORY, open_memory_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from palaestra.runner.job import TrainingJob

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Seat:
    """A rank's place among those that train together, and where they meet."""

    number: int
    world_size: int
    local_number: int  # on its machine
    address: str  # of the machine of rank 0
    port: int

    def variables(self) -> dict[str, str]:
        return {
            "RANK": str(self.number),
            "LOCAL_RANK": str(self.local_number),
            "WORLD_SIZE": str(self.world_size),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


class Rank:
    """One process, in a process group of its own: Ctrl-C in a terminal reaches it once, through the launcher.

    `listening`, for rank 0, is an open socket at its seat's port. `memory` is an open file that all ranks share, where
    they are on one machine. `output` replaces standard output and error.
    """

    def __init__(
        self,
        seat: Seat,
        listening: socket.socket | None,
        variables: Mapping[str, str] = os.environ,
        output: IO[bytes] | None = None,
        folder: str | None = None,
        memory: int | None = None,
    ) -> None:
        self.number = seat.number
        self.ended_at: float | None = None
        self.was_killed = False  # by us
        own = {
            **variables,
            **seat.variables(),
            LAUNCHER: str(os.getpid()),
            "TORCH_CPP_LOG_LEVEL": variables.get("TORCH_CPP_LOG_LEVEL", "ERROR"),  # else a lost peer fills the screen
        }
        descriptors = []
        if listening is not None:
            own[LISTENING] = str(listening.fileno())
            descriptors.append(listening.fileno())
        if memory is not None:
            own[MEMORY] = str(memory)
            descriptors.append(memory)
        self._child = LineChild(
            module_command("palaestra.runner"),
            variables=own,
            output=output if output is not None else (None if seat.number == 0 else STANDARD_ERROR),
            errors=output,
            folder=folder,
            descriptors=descriptors,
            answer_variable=REPORT_VARIABLE,
        )
        self.process = self._child.process

    @property
    def code(self) -> int | None:
        """As `Popen.returncode`; None while it runs."""
        return self.process.returncode

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def give(self, job: TrainingJob) -> None:
        self._child.send_line(job.to_json())
        self._child.close_input()

    def has_ended(self) -> bool:
        if self.process.poll() is None:
            return False
        if self.ended_at is None:
            self.ended_at = time.monotonic()
        return True

    def is_stopped(self) -> bool:
        """By SIGSTOP or a debugger; False where the system does not tell."""
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] in {"T", "t"}

    def exit_report(self) -> ExitReport | None:
        """What it reported; None when it reported nothing. Asked once, after its end."""
        return receive_report(self._child)

    def kill(self) -> None:
        if not self.has_ended():
            self.was_killed = True
            self.process.kill()


class Signalled(Protocol):
    def send_signal(self, number: int) -> None:
        """Called by a signal's handler, in the middle of anything."""
        ...


@contextmanager
def started(job: TrainingJob, count: int) -> Iterator[list[Rank]]:
    """All ranks, with their job; whatever happens in the block, none of them is alive after it."""
    ranks: list[Rank] = []
    memory = open_memory_file()
    try:
        with socket.socket() as listening:
            listening.bind((LOOPBACK, 0))
            listening.listen(128)
            port = listening.getsockname()[1]
            for number in range(count):  # those before it must be ended if one fails
                seat = Seat(number, count, number, LOOPBACK, port)
                ranks.append(Rank(seat, listening if number == 0 else None, memory=memory))
        for rank in ranks:
            rank.give(job)
        yield ranks
    finally:
        os.close(memory)
        for rank in ranks:
            rank.kill()
            rank.process.wait()


@contextmanager
def forwarded_signals(ranks: Sequence[Signalled]) -> Iterator[list[int]]:
    """Signals that would stop a training go to every rank, once each; those that came, in order."""
    came: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        for rank in ranks:
            rank.send_signal(number)

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
