"""What a launcher writes down of a run whose leader could not, or could not know why it had to end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palaestra.core.clock import SystemClock
from palaestra.core.errors import PalaestraError
from palaestra.core.run import RunState
from palaestra.runs.journal import Journal
from palaestra.runs.lock import run_lock
from palaestra.runs.status import ACTIVE, moved, read_written_record, write_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from palaestra.runner.job import TrainingJob
    from palaestra.runs.directory import RunDirectory


def write_epitaph(job: TrainingJob, leader_pid: int, rank: int, cause: str, *, is_told: bool) -> RunDirectory | None:
    """`cause` in status and journal of the run that process `leader_pid` led: that run, if it came as far as that."""
    store = RunStore(job.runs_root)
    led = next((record for record in store.list() if record.pid == leader_pid), None)
    if led is None:
        return None
    directory = store.directory(led.id)
    try:
        with run_lock(directory):
            _write(directory, rank, cause, is_told=is_told)
    except PalaestraError:  # somebody continues the run already: what was is the journal's and theirs
        return None
    return directory


def write_for_dead_leader(directory: RunDirectory, cause: str) -> None:
    """By another rank, where no launcher of ours would: under torchrun. A leader that lives holds the lock.

    Without a shared disk the leader's files are not here.
    """
    if not directory.status_file.is_file():
        return
    try:
        with run_lock(directory):
            if read_written_record(directory).state in ACTIVE:
                _write(directory, 0, cause, is_told=False)
    except PalaestraError:
        return


def _write(directory: RunDirectory, rank: int, cause: str, *, is_told: bool) -> None:
    journal = Journal(directory)
    record = read_written_record(directory)
    now = SystemClock().now()
    journal.record("rank.failed", rank=rank, error=cause)
    if record.state in ACTIVE:
        record = moved(record, RunState.FAILED, ended_at=now, exit_code=1, failure=cause)
        journal.record("run.failed", epoch=record.epoch, step=record.agent_step, error=cause, exit_code=1)
    elif record.state is RunState.FAILED and not is_told:
        record = replace(record, failure=cause)
    write_record(directory, replace(record, updated_at=now), durable=True)
