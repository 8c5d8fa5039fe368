"""The rank processes of one training on this machine: start, signals, end."""

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
class RankSpec:
    """The number of a rank, and the address where all ranks meet."""

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
    """One process, which leads a process group: Ctrl-C in a terminal reaches it once, through the launcher.

    `listening`, for rank 0, is an open socket at the port of `spec`. `memory` is an open file that the ranks of one
    machine share. `output` replaces standard output and error.
    """

    def __init__(
        self,
        spec: RankSpec,
        listening: socket.socket | None,
        variables: Mapping[str, str] = os.environ,
        output: IO[bytes] | None = None,
        folder: str | None = None,
        memory: int | None = None,
    ) -> None:
        self.number = spec.number
        self.ended_at: float | None = None
        self.was_killed = False  # by the launcher
        own = {
            **variables,
            **spec.variables(),
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
            output=output if output is not None else (None if spec.number == 0 else STANDARD_ERROR),
            errors=output,
            folder=folder,
            descriptors=descriptors,
            pipe_variable=REPORT_VARIABLE,
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
        """Whether SIGSTOP or a debugger has stopped it; False where /proc does not say."""
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] in {"T", "t"}

    def exit_report(self) -> ExitReport | None:
        """What it reported, or None. Call it once, after its end."""
        return receive_report(self._child)

    def kill(self) -> None:
        if not self.has_ended():
            self.was_killed = True
            self.process.kill()


class SignalTarget(Protocol):
    def send_signal(self, number: int) -> None:
        """Called from a signal handler."""
        ...


@contextmanager
def started_ranks(job: TrainingJob, count: int) -> Iterator[list[Rank]]:
    """All ranks, with their job. No rank outlives the block."""
    ranks: list[Rank] = []
    memory = open_memory_file()
    try:
        with socket.socket() as listening:
            listening.bind((LOOPBACK, 0))
            listening.listen(128)
            port = listening.getsockname()[1]
            for number in range(count):  # if one fails to start, those before it must be ended
                spec = RankSpec(number, count, number, LOOPBACK, port)
                ranks.append(Rank(spec, listening if number == 0 else None, memory=memory))
        for rank in ranks:
            rank.give(job)
        yield ranks
    finally:
        os.close(memory)
        for rank in ranks:
            rank.kill()
            rank.process.wait()


@contextmanager
def forwarded_signals(ranks: Sequence[SignalTarget]) -> Iterator[list[int]]:
    """Forwards signals that stop a training to every rank; gives the signals received, in order."""
    received: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        for rank in ranks:
            rank.send_signal(number)

    before = {}
    try:
        for number in STOPPING:
            before[number] = signal.signal(number, forward)
    except ValueError:  # not in the main thread: signals cannot be handled
        before.clear()
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
