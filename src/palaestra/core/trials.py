"""Slots for many runs side by side: what a trial needs, how it is started, and how it ended.

`sweeps/scheduler.py` starts processes of this machine; others are the `trial_slots` of an executor, each a
function `(SlotRequest) -> TrialRunner`. Only text passes between the two sides, so that it may also pass between
machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class SlotRequest:
    count: int | None  # side by side; None: as many as fit
    cpus_each: int = 1  # threads that one trial keeps busy
    gpus_each: float = 0.0
    address: str | None = None  # of a cluster, as `cluster.address`; None: the executor's default
    cpus: int | None = None  # of an embedded cluster, as `cluster.cpus`


@dataclass(frozen=True)
class TrialRequest:
    """A run for a process of its own: `python -m palaestra.runner`, with `job` on standard input."""

    name: str  # of the run; no two of one runner are equal
    job: str  # workers.job.Job as JSON: request, complete configuration, runs_root
    log: Path  # for what the process prints; its directory exists


@dataclass(frozen=True)
class TrialResult:
    handle: str
    exit_code: int  # 0 finished, 130 or 143 stopped in order, negative: ended by that signal
    error: str = ""  # one sentence; the status of the run has its own message
    is_lost: bool = False  # its machine is gone; the run can be continued elsewhere


class TrialRunner(Protocol):
    """Slots for trials. A trial ends with its runner, and its run is continued the next time."""

    @property
    def slots(self) -> int:
        """How many trials may run at once; the number may change, also to 0 for a while."""
        ...

    def start(self, order: TrialRequest) -> str:
        """Starts a trial and returns its handle; the caller counts the slots in use."""
        ...

    def finished(self, seconds: float) -> list[TrialResult]:
        """Trials that ended since the last call; waits at most `seconds` for the first."""
        ...

    def stop(self, handle: str) -> None:
        """Asks a trial to finish its update, save and exit (SIGTERM); `finished` returns its result."""
        ...

    def close(self) -> None:
        """Kills what still runs and releases the slots."""
        ...


if TYPE_CHECKING:
    SlotsPlugin = Callable[[SlotRequest], TrialRunner]
