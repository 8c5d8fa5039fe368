"""`palaestra repair`: the daemon's index made anew from the run directories, which are the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.core.run import RunState
from palaestra.daemon.gathering import look_at, run_ids
from palaestra.daemon.home import DaemonHome
from palaestra.daemon.index import COMPANIONS, build_index
from palaestra.runs.directory import RunDirectory

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Repaired:
    runs: int  # found, and in the index now
    waiting: int  # of these in the queue
    unreadable: tuple[str, ...]  # ids of runs whose files are damaged; listed as lost
    kept: Path | None  # the index as it was, for whoever wants to look into it


def repair_index(root: Path) -> Repaired:
    """StoreInUse while a daemon serves these runs; StoreRefused when there is no room. No run is touched."""
    home = DaemonHome(root.absolute()).make()
    with home.held():
        entries = [look_at(RunDirectory(home.root / run_id)) for run_id in sorted(run_ids(home.root))]
        kept = _set_aside(home.index_file)
        tickets = [entry.ticket for entry in entries if entry.ticket is not None]
        build_index(home.index_file, entries, max((ticket.sequence for ticket in tickets), default=0))
    damaged = [
        entry for entry in entries if entry.state is RunState.LOST and entry.record.failure.startswith("damaged:")
    ]
    return Repaired(
        runs=len(entries),
        waiting=sum(entry.is_waiting for entry in entries),
        unreadable=tuple(entry.id for entry in damaged),
        kept=kept,
    )


def _set_aside(path: Path) -> Path | None:
    """Under the next free number; its log goes with it, else it would be taken for the new one's."""
    if not path.exists():
        return None
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.replace(kept)
    for companion in COMPANIONS:
        beside = path.with_name(path.name + companion)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + companion))
    return kept
