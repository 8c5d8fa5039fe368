"""The failure of a run whose leader could not record it, or could not know why it had to end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palaestra.core.clock import SystemClock
from palaestra.core.errors import PalaestraError
from palaestra.core.run import RunState
from palaestra.runs.journal import Journal
from palaestra.runs.lock import run_lock
from palaestra.runs.status import ACTIVE, read_written_record, with_state, write_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from palaestra.runner.job import TrainingJob
    from palaestra.runs.directory import RunDirectory


def record_rank_failure(
    job: TrainingJob, leader_pid: int, rank: int, cause: str, *, leader_recorded_it: bool
) -> RunDirectory | None:
    """Writes `cause` into status and journal of the run that process `leader_pid` led; None if it had not begun."""
    store = RunStore(job.runs_root)
    led = next((record for record in store.list() if record.pid == leader_pid), None)
    if led is None:
        return None
    directory = store.directory(led.id)
    try:
        with run_lock(directory):
            _write(directory, rank, cause, leader_recorded_it=leader_recorded_it)
    except PalaestraError:  # another process continues the run already
        return None
    return directory


def record_dead_leader(directory: RunDirectory, cause: str) -> None:
    """By another rank under torchrun, where no launcher of ours does it. A leader that lives holds the lock.

    Does nothing without a shared disk.
    """
    if not directory.status_file.is_file():
        return
    try:
        with run_lock(directory):
            if read_written_record(directory).state in ACTIVE:
                _write(directory, 0, cause, leader_recorded_it=False)
    except PalaestraError:
        return


def _write(directory: RunDirectory, rank: int, cause: str, *, leader_recorded_it: bool) -> None:
    journal = Journal(directory)
    record = read_written_record(directory)
    now = SystemClock().now()
    journal.record("rank.failed", rank=rank, error=cause)
    if record.state in ACTIVE:
        record = with_state(record, RunState.FAILED, ended_at=now, exit_code=1, failure=cause)
        journal.record("run.failed", epoch=record.epoch, step=record.agent_step, error=cause, exit_code=1)
    elif record.state is RunState.FAILED and not leader_recorded_it:
        record = replace(record, failure=cause)
    write_record(directory, replace(record, updated_at=now), durable=True)
