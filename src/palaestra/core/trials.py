"""Many runs side by side: what is asked of whoever has the slots for them, and what is told back.

`sweeps/local_slots.py` starts processes of this machine; others are the `trial_slots` of an executor, each a
function `(SlotsWanted) -> TrialRunner`. Only text passes between the two sides, so that it may also pass between
machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class SlotsWanted:
    count: int | None  # side by side; None: as many as fit
    cpus_each: int = 1  # threads that one trial keeps busy
    gpus_each: float = 0.0
    address: str | None = None  # of a cluster, as `cluster.address` says; None: what the executor takes by itself
    cpus: int | None = None  # that a cluster of one's own offers, as `cluster.cpus` says


@dataclass(frozen=True)
class TrialOrder:
    """One run to be trained by a process of its own: `python -m palaestra.runner`, with `job` on standard input."""

    name: str  # of the run; no two of one runner are equal
    job: str  # workers.job.Job as JSON: request, complete configuration, runs_root
    log: Path  # for what the process prints; its directory exists


@dataclass(frozen=True)
class TrialEnd:
    handle: str
    exit_code: int  # 0 finished, 130 or 143 stopped in order, negative: ended by that signal
    error: str = ""  # what went wrong, in one sentence; what the run itself knows of it is in its status
    is_lost: bool = False  # its machine is gone: the run can be continued elsewhere


class TrialRunner(Protocol):
    """Slots for trials. A trial never outlives its runner, however that ends: its run is continued the next time."""

    @property
    def slots(self) -> int:
        """How many trials may run side by side now; it may change, and be 0 for a while."""
        ...

    def start(self, order: TrialOrder) -> str:
        """A handle; the caller keeps count of the slots that are taken."""
        ...

    def finished(self, seconds: float) -> list[TrialEnd]:
        """Trials that ended since the last call, each told once; waits at most `seconds` for the first."""
        ...

    def stop(self, handle: str) -> None:
        """Ask a trial to end its update, save and leave (SIGTERM); that it did is told by `finished`."""
        ...

    def close(self) -> None:
        """End at once whatever still runs, and give the slots back."""
        ...


if TYPE_CHECKING:
    SlotsPlugin = Callable[[SlotsWanted], TrialRunner]
