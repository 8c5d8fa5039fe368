"""`checkpoint_log.json` of a search: when each checkpoint was written, at which flip, and after how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from palaestra.checkpoints.log import LOG_NAME, SCHEMA_VERSION, LogEntry, entry_fields, read_log
from palaestra.core.errors import DamagedFile
from palaestra.runs.files import write_json

if TYPE_CHECKING:
    from pathlib import Path

MOST_ENTRIES = 1000  # of a search that goes on for days the newest


def log_checkpoint(directory: Path, flips: int, seconds: float, file: str) -> int:
    """Its number. A search has one file, which each checkpoint replaces: those before are marked as gone."""
    try:
        before = read_log(directory)
    except (FileNotFoundError, DamagedFile):
        before = []
    gone = [replace(entry, removed=True) for entry in before[-MOST_ENTRIES + 1 :]]
    number = before[-1].epoch + 1 if before else 1
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    entries = [*gone, LogEntry(number, flips, None, now, round(seconds, 3), file)]
    content = {"schema_version": SCHEMA_VERSION, "checkpoints": [entry_fields(entry) for entry in entries]}
    write_json(directory / LOG_NAME, content)
    return number
