"""Reads the run directories: which runs exist, and what state each has for a daemon that starts."""

from __future__ import annotations

import os
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.core.run import RunRecord, RunState
from palaestra.daemon.monitor_handle import is_monitored, is_running, read_monitor_record
from palaestra.daemon.run_entry import RunEntry, Submission, read_submission
from palaestra.runs.directory import has_only_logs
from palaestra.runs.identity import is_run_id
from palaestra.runs.status import observed, read_written_record, unreadable_record

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory


class StartupState(Enum):
    """Every run that a starting daemon finds has exactly one of these states."""

    WAITING = auto()  # accepted, not started in this attempt
    MONITORED = auto()  # its monitor is alive
    UNMONITORED = auto()  # its monitor is gone, its worker is alive
    UNRECORDED = auto()  # it has ended, but its status does not say so yet
    OVER = auto()
    EXTERNAL = auto()  # started or continued by another process


def list_run_ids(root: Path) -> set[str]:
    try:
        with os.scandir(root) as entries:
            return {
                entry.name
                for entry in entries
                if is_run_id(entry.name) and entry.is_dir(follow_symlinks=False) and not has_only_logs(entry.path)
            }
    except FileNotFoundError:
        return set()


def status_stamp_of(directory: RunDirectory) -> str:
    """Returns a string that changes when status.json is replaced; empty without the file."""
    try:
        found = directory.status_file.stat()
    except OSError:
        return ""
    return f"{found.st_mtime_ns}-{found.st_ino}"


def read_entry(directory: RunDirectory, known: RunEntry | None = None) -> RunEntry:
    """Reads a run from its directory. A damaged run becomes lost, with the reason."""
    stamp = status_stamp_of(directory)
    try:
        record = replace(read_written_record(directory), id=directory.id)
    except (DamagedFile, NotFound) as error:
        record = unreadable_record(directory.id, known.record.name if known else directory.id, error)
    try:
        submission = read_submission(directory)
    except (DamagedFile, NotFound) as error:
        submission = None
        record = replace(record, state=RunState.LOST, failure=f"damaged: {error}")
    return RunEntry(record, submission, status_stamp=stamp)


def find_startup_state(directory: RunDirectory, entry: RunEntry) -> StartupState:
    if entry.submission is None:
        return StartupState.OVER if entry.state.is_over else StartupState.EXTERNAL
    if is_monitored(directory):
        return StartupState.MONITORED
    if entry.state.is_over:
        return StartupState.OVER
    return _startup_state_without_monitor(directory, entry.record, entry.submission)


def refresh_external(entry: RunEntry) -> RunEntry:
    """Updates the entry of an external run: its status is valid only while its process is alive."""
    return replace(entry, record=observed(entry.record))


def _startup_state_without_monitor(directory: RunDirectory, record: RunRecord, submission: Submission) -> StartupState:
    monitor_record = read_monitor_record(directory)
    if monitor_record is None or monitor_record.attempt != submission.attempt or monitor_record.worker is None:
        return StartupState.WAITING if record.state is RunState.QUEUED else StartupState.EXTERNAL
    if not monitor_record.has_ended and is_running(monitor_record.worker):
        return StartupState.UNMONITORED
    return StartupState.UNRECORDED
