"""What the directories say: which runs there are, and how each stands with a daemon that has just come."""

from __future__ import annotations

import os
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.core.run import RunRecord, RunState
from palaestra.daemon.entry import Entry
from palaestra.daemon.keeping import is_kept, read_note, still_there
from palaestra.daemon.ticket import Ticket, read_ticket
from palaestra.runs.directory import has_only_logs
from palaestra.runs.identity import is_run_id
from palaestra.runs.status import observed, read_written_record, unreadable_record

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory


class Standing(Enum):
    """Every run that a daemon finds at its start is exactly one of these."""

    WAITING = auto()  # accepted, never started in this attempt
    KEPT = auto()  # its keeper lives
    UNKEPT = auto()  # its keeper is gone, its worker lives
    ENDED = auto()  # and nobody has said so in its status yet
    OVER = auto()
    ELSEWHERE = auto()  # somebody else made it, or went on with it, and looks after it


def run_ids(root: Path) -> set[str]:
    try:
        with os.scandir(root) as entries:
            return {
                entry.name
                for entry in entries
                if is_run_id(entry.name) and entry.is_dir(follow_symlinks=False) and not has_only_logs(entry.path)
            }
    except FileNotFoundError:
        return set()


def stamp_of(directory: RunDirectory) -> str:
    """Changes whenever status.json is replaced; empty when there is none."""
    try:
        found = directory.status_file.stat()
    except OSError:
        return ""
    return f"{found.st_mtime_ns}-{found.st_ino}"


def look_at(directory: RunDirectory, known: Entry | None = None) -> Entry:
    """As it stands on disk; what cannot be read is listed as lost, with the reason."""
    stamp = stamp_of(directory)
    try:
        record = replace(read_written_record(directory), id=directory.id)
    except (DamagedFile, NotFound) as error:
        record = unreadable_record(directory.id, known.record.name if known else directory.id, error)
    try:
        ticket = read_ticket(directory)
    except (DamagedFile, NotFound) as error:
        ticket = None
        record = replace(record, state=RunState.LOST, failure=f"damaged: {error}")
    return Entry(record, ticket, status_stamp=stamp)


def stand_of(directory: RunDirectory, entry: Entry) -> Standing:
    if entry.ticket is None:
        return Standing.OVER if entry.state.is_over else Standing.ELSEWHERE
    if is_kept(directory):
        return Standing.KEPT
    if entry.state.is_over:
        return Standing.OVER
    return _stand_without_keeper(directory, entry.record, entry.ticket)


def seen(entry: Entry) -> Entry:
    """An entry of somebody else's run: what it says of itself holds only while its process lives."""
    return replace(entry, record=observed(entry.record))


def _stand_without_keeper(directory: RunDirectory, record: RunRecord, ticket: Ticket) -> Standing:
    note = read_note(directory)
    if note is None or note.attempt != ticket.attempt or note.worker is None:
        return Standing.WAITING if record.state is RunState.QUEUED else Standing.ELSEWHERE
    if not note.has_ended and still_there(note.worker):
        return Standing.UNKEPT
    return Standing.ENDED
