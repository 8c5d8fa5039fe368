"""A run: its request, its record, its states and their transitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

UNREADABLE = "unknown"  # the kind of a run whose status cannot be read
NEWER_VERSION = "written by a newer version"  # what stands in place of its recipe when that is the reason
UPLOADED = "upload"  # the kind of a run that consists of an uploaded checkpoint


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def is_over(self) -> bool:
        return self in {RunState.FINISHED, RunState.FAILED, RunState.CANCELLED, RunState.LOST}


# A run that is over can be continued: `palaestra train RECIPE run=NAME` again, or queued for it by a daemon.
MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.CANCELLED, RunState.FAILED}),
    RunState.RUNNING: frozenset(
        {RunState.STOPPING, RunState.FINISHED, RunState.FAILED, RunState.CANCELLED, RunState.LOST}
    ),
    RunState.STOPPING: frozenset({RunState.FINISHED, RunState.FAILED, RunState.CANCELLED, RunState.LOST}),
    RunState.FINISHED: frozenset({RunState.QUEUED, RunState.RUNNING}),
    RunState.FAILED: frozenset({RunState.QUEUED, RunState.RUNNING}),
    RunState.CANCELLED: frozenset({RunState.QUEUED, RunState.RUNNING}),
    RunState.LOST: frozenset({RunState.QUEUED, RunState.RUNNING}),
}


@dataclass(frozen=True)
class RunRequest:
    """A request for a run, as submitted."""

    kind: str  # worker kind: "native", later "evaluate", "cleanrl", "matmul"
    recipe: str
    config: dict[str, Any]  # requested overrides, nested
    name: str = ""
    submitted_by: str = ""  # "cli", "python", "web:<user>"
    command: str = ""  # the equivalent command line, for tracing
    executor: str = "local"  # who places its processes: "local", or a plugin of `palaestra.executors`
    nproc: int = 1  # processes that train together


@dataclass(frozen=True)
class RunRecord:
    """What `status.json` says of a run; replaced whole, never edited."""

    id: str
    name: str
    kind: str
    recipe: str
    state: RunState
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    updated_at: float | None = None
    pid: int | None = None
    pid_started_at: float | None = None  # with the pid it names one process, ever
    epoch: int = 0
    agent_step: int = 0
    total_steps: int = 0
    exit_code: int | None = None
    failure: str = ""
    summary: dict[str, float] = field(default_factory=dict)  # last return, steps per second, …


@dataclass(frozen=True)
class JournalEntry:
    """One line of `journal.jsonl`. Event names are listed in docs/events.md."""

    at: float
    event: str
    level: str = "info"
    rank: int = 0
    data: dict[str, Any] = field(default_factory=dict)
