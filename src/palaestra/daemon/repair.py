"""`palaestra repair`: rebuilds the daemon's index from the run directories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.core.run import RunState
from palaestra.daemon.index import COMPANIONS, build_index
from palaestra.daemon.run_scan import list_run_ids, read_entry
from palaestra.daemon.settings import DaemonDirectory
from palaestra.runs.directory import RunDirectory

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class RepairResult:
    runs: int  # in the new index
    waiting: int  # of these, queued
    unreadable: tuple[str, ...]  # ids of runs with damaged files; listed as lost
    backup: Path | None  # the previous index


def repair_index(root: Path) -> RepairResult:
    """Rebuilds the index; no run is changed. Raises StoreInUse while a daemon runs, StoreRefused on a full disk."""
    home = DaemonDirectory(root.absolute()).create()
    with home.lock():
        entries = [read_entry(RunDirectory(home.root / run_id)) for run_id in sorted(list_run_ids(home.root))]
        backup = _back_up(home.index_file)
        submissions = [entry.submission for entry in entries if entry.submission is not None]
        build_index(home.index_file, entries, max((submission.sequence for submission in submissions), default=0))
    damaged = [
        entry for entry in entries if entry.state is RunState.LOST and entry.record.failure.startswith("damaged:")
    ]
    return RepairResult(
        runs=len(entries),
        waiting=sum(entry.is_waiting for entry in entries),
        unreadable=tuple(entry.id for entry in damaged),
        backup=backup,
    )


def _back_up(path: Path) -> Path | None:
    """Renames the index and its write-ahead log, which must not be applied to the new one."""
    if not path.exists():
        return None
    number = 1
    while (backup := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.replace(backup)
    for companion in COMPANIONS:
        beside = path.with_name(path.name + companion)
        if beside.exists():
            beside.replace(backup.with_name(backup.name + companion))
    return backup
