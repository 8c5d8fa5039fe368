"""The actor of one rank: on the machine that Ray chose it starts `python -m palaestra.workers`, and answers for it.

The process is a child of the actor and dies with it, and the actor dies with the driver: nothing outlives a training.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from palaestra.workers.job import Job
from palaestra.workers.ranks import Rank, Seat

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN = "RAY_"  # variables with which Ray tells its workers who they are
KEPT = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")  # a rank may ask the cluster for an evaluation
MOST_BYTES = 1 << 20  # of output in one answer


@dataclass(frozen=True)
class Site:
    """The machine that an actor is on."""

    node: str  # Ray's id of it
    host: str
    address: str
    sees_runs: bool  # the driver's runs, on a disk that both have


@dataclass(frozen=True)
class RankReport:
    """How a rank is doing; times are of its machine's monotonic clock."""

    now: float
    pid: int
    output: bytes = b""  # what it printed since the last report
    code: int | None = None  # None: it runs
    ended_at: float | None = None
    account: dict[str, Any] | None = None  # Account, when it has ended and said something


class RankActor:
    """Only text, bytes and numbers pass between it and the driver."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._rank: Rank | None = None
        self._listening: socket.socket | None = None
        self._output: IO[bytes] | None = None
        self._account: dict[str, Any] | None = None
        self._read = 0  # bytes of the output that were reported

    def site(self, node: str, address: str, runs_root: str, witness: str) -> Site:
        return Site(node, socket.gethostname(), address, (Path(runs_root) / witness).is_file())

    def listen(self, address: str) -> int:
        """The port at which the ranks will meet; held open, so that nobody can take it meanwhile."""
        self._listening = socket.socket()
        self._listening.bind((address, 0))
        self._listening.listen(128)
        port: int = self._listening.getsockname()[1]
        return port

    def start(self, seat: dict[str, Any], job: str, variables: dict[str, str], folder: str) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  a pipe would hold up the rank when nobody reads
        self._rank = Rank(
            Seat(**seat),
            self._listening,
            {**rank_variables(os.environ), **variables},
            self._output,
            folder if Path(folder).is_dir() else None,
        )
        if self._listening is not None:
            self._listening.close()
        self._rank.give(Job.from_json(job))

    def report(self) -> RankReport:
        rank = self._rank
        assert rank is not None, "started before"
        has_ended = rank.has_ended()  # asked first: what it printed before its end must not be missed
        if has_ended and self._account is None:
            account = rank.account()
            self._account = {} if account is None else asdict(account)
        output = self._new_output()
        if not has_ended or len(output) == MOST_BYTES:
            return RankReport(time.monotonic(), rank.process.pid, output)
        return RankReport(time.monotonic(), rank.process.pid, output, rank.code, rank.ended_at, self._account or None)

    def signal(self, number: int) -> None:
        if self._rank is not None:
            self._rank.send_signal(number)

    def kill(self) -> None:
        if self._rank is not None:
            self._rank.kill()

    def _new_output(self) -> bytes:
        assert self._output is not None, "started before"
        found = os.pread(self._output.fileno(), MOST_BYTES, self._read)
        self._read += len(found)
        return found


def rank_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of the actor without what makes a process one of Ray's."""
    return {name: value for name, value in variables.items() if not name.startswith(OWN) or name in KEPT}
