"""The actor of one rank or trial: on the machine that Ray chose it starts `python -m palaestra.runner` and reports.

The process is a child of the actor and dies with it, and the actor dies with the driver: nothing outlives a training.
Where the machine does not see the driver's folder of runs, the run lives in a scratch directory of the actor, and its
reports carry what is new in it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from palaestra.cluster.training.run_mirror import receive
from palaestra.cluster.training.run_sender import LogSender, RunReport, RunSender
from palaestra.runner.job import TrainingJob
from palaestra.runner.ranks import Rank, RankSpec
from palaestra.runs.environment import CodeIdentity, code_identity, compare_code
from palaestra.runs.store import ENVIRONMENT_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RAY_PREFIX = "RAY_"  # variables that identify Ray's workers
FORWARDED_RAY_VARIABLES = (
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
)  # a rank may ask the cluster for an evaluation
RANK_VARIABLES = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
OWN_DISK = "PALAESTRA_OWN_DISK"  # set on a machine: runs are trained in its scratch directory, whatever it sees
MOST_BYTES = 1 << 20  # of output in one report


@dataclass(frozen=True)
class ActorSite:
    """The machine that an actor is on."""

    node: str  # Ray's id of it
    host: str
    address: str
    sees_runs: bool  # the driver's runs, on a disk that both have
    code: CodeIdentity | None = None


@dataclass(frozen=True)
class RankReport:
    """The state of a rank; times are of its machine's monotonic clock."""

    now: float
    pid: int
    output: bytes = b""  # what it printed since the last report
    has_ended: bool = False
    code: int | None = None  # None: it runs, or there is more to report
    ended_at: float | None = None
    exit_report: dict[str, Any] | None = None  # ExitReport, when the rank has ended and reported
    run: RunReport | None = None  # what is new in its run directory, where that is not the driver's


@dataclass(frozen=True)
class RunUpload:
    """Runs and their names for a machine without the shared disk, sent before a process starts there."""

    runs: tuple[tuple[str, RunReport], ...] = ()


class SingleRun(RankSpec):
    """The process of a trial: a separate training, not one of several ranks."""

    def variables(self) -> dict[str, str]:
        return {}


class RankActor:
    """Only text, bytes and numbers pass between it and the driver."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._rank: Rank | None = None
        self._listening: socket.socket | None = None
        self._output: IO[bytes] | None = None
        self._exit_report: dict[str, Any] | None = None
        self._read = 0  # bytes of the output that were reported
        self._scratch: ScratchDirectory | None = None
        self._sender: RunSender | LogSender | None = None

    def site(self, node: str, address: str, runs_root: str, marker: str, modules: Sequence[str] = ()) -> ActorSite:
        """Describes this machine. `marker` is a file that the driver has created in its runs folder."""
        sees_runs = (Path(runs_root) / marker).is_file() and not os.environ.get(OWN_DISK)
        return ActorSite(node, socket.gethostname(), address, sees_runs, code_identity(modules))

    def code_differences(self, expected: dict[str, Any]) -> dict[str, Any] | None:
        """Differences between the code of this machine and of the driver; fields of `CodeDifferences`."""
        found = compare_code(CodeIdentity(**expected))
        return None if found is None else asdict(found)

    def listen(self, address: str) -> int:
        """The port of the rendezvous; its socket stays open, so that no other process can take it."""
        host = address.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, 0), family=family, backlog=128)
        port: int = self._listening.getsockname()[1]
        return port

    def start(
        self,
        spec: dict[str, Any] | None,
        job: str,
        variables: dict[str, str],
        folder: str,
        delivery: RunUpload | None = None,
    ) -> str:
        """Starts the process. `spec` is None for a trial. With a `delivery` the run is on this machine, and its runs
        folder is returned."""
        own = TrainingJob.from_json(job)
        variables = {**rank_variables(os.environ), **variables}
        if delivery is not None:
            own = replace(own, runs_root=self._unpack(delivery, own.request.name))
            variables[ENVIRONMENT_VARIABLE] = str(own.runs_root)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  a pipe without a reader would block the rank
        self._rank = Rank(
            RankSpec(**spec) if spec is not None else SingleRun(0, 1, 0, "", 0),
            self._listening,
            variables,
            self._output,
            folder if Path(folder).is_dir() else None,
        )
        if self._listening is not None:
            self._listening.close()
        self._rank.give(own)
        return "" if delivery is None else str(own.runs_root)

    def report(self, *, wants_run: bool = True) -> RankReport:
        """The state of the process; with `wants_run` also changes of the run (not while the driver's disk is full)."""
        rank = self._rank
        assert rank is not None, "started before"
        has_ended = rank.has_ended()  # first, so that output before its end is not missed
        if has_ended and self._exit_report is None:
            exit_report = rank.exit_report()
            self._exit_report = {} if exit_report is None else asdict(exit_report)
        output = self._new_output()
        now, pid = time.monotonic(), rank.process.pid
        run = self._sender.report(is_last=has_ended) if self._sender is not None and wants_run else None
        is_all = len(output) < MOST_BYTES and (self._sender is None or (wants_run and self._sender.is_complete))
        if not has_ended or not is_all:
            return RankReport(now, pid, output, has_ended, run=run)
        return RankReport(now, pid, output, has_ended, rank.code, rank.ended_at, self._exit_report or None, run)

    def signal(self, number: int) -> None:
        if self._rank is not None:
            self._rank.send_signal(number)

    def kill(self) -> None:
        if self._rank is not None:
            self._rank.kill()

    def close(self) -> None:
        """Ends the process and removes the scratch directory, before the actor is ended."""
        if self._rank is not None:
            self._rank.kill()
            self._rank.process.wait()
        if self._scratch is not None:
            self._scratch.close()

    def _unpack(self, delivery: RunUpload, name: str) -> Path:
        self._scratch = ScratchDirectory()
        for run_name, run in delivery.runs:
            receive(self._scratch.path, run, run_name)
        if self._number:  # the run lives with rank 0
            self._sender = LogSender(self._scratch.path, self._number)
            return self._scratch.path
        sender = RunSender(self._scratch.path, name)
        sender.skip_received()
        self._sender = sender
        return self._scratch.path

    def _new_output(self) -> bytes:
        assert self._output is not None, "started before"
        found = os.pread(self._output.fileno(), MOST_BYTES, self._read)
        self._read += len(found)
        return found


def rank_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The actor's environment variables without those of Ray's workers and of other ranks."""
    return {
        name: value
        for name, value in variables.items()
        if name in FORWARDED_RAY_VARIABLES or not (name.startswith(RAY_PREFIX) or name in RANK_VARIABLES)
    }


PREFIX = "palaestra-run-"


class ScratchDirectory:
    """Nobody else may enter it. What a process left that was killed, the next one here removes.

    A lock says that its owner is alive; a pid would not, where several containers share one folder.
    """

    def __init__(self, base: Path | None = None) -> None:
        base = base or Path(tempfile.gettempdir())
        remove_abandoned(base)
        self.path = base / f"{PREFIX}{uuid4().hex}"
        self._lock = _hold_new(self.path)
        self.path.mkdir(mode=0o700)

    def close(self) -> None:
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            _lock_file(self.path).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def remove_abandoned(base: Path) -> None:
    """Removes folders whose owners have ended."""
    for path in base.glob(f"{PREFIX}*.lock"):
        with suppress(OSError):  # another user's, or gone meanwhile
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink()
            finally:
                os.close(descriptor)


def _hold_new(folder: Path) -> int:
    """Written before the folder exists, so that a concurrent clean-up does not take it for abandoned."""
    path = _lock_file(folder)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False)):
                return descriptor
        os.close(descriptor)  # it was removed between the two calls


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")
