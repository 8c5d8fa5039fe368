"""`journal.jsonl`: what happened to a run, one line each, in the order in which it happened."""

from __future__ import annotations

import json
import logging
import warnings
from typing import TYPE_CHECKING, Any

from palaestra.core.clock import Clock, SystemClock
from palaestra.core.run import JournalEntry
from palaestra.runs.events import EVENTS
from palaestra.runs.files import append_line, finite

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)


class Journal:
    """Lines are small and go out in one write each, so several processes may keep one journal."""

    def __init__(self, directory: RunDirectory, clock: Clock | None = None, rank: int = 0) -> None:
        self._path = directory.journal_file
        self._run = directory.id
        self._clock = clock or SystemClock()
        self._rank = rank
        self.failures = 0  # entries that could not be written

    def record(self, event: str, *, level: str | None = None, **data: Any) -> None:
        """Write one entry. A full disk is said once and counted; it never stops the run."""
        _warn_of_strangers(event, data)
        entry = {
            "at": round(self._clock.now(), 6),
            "event": event,
            "level": level or (EVENTS[event].level if event in EVENTS else "info"),
            "run": self._run,
            "rank": self._rank,
            "data": finite(data),
        }
        try:
            append_line(self._path, json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=str))
        except OSError as error:
            self._count(error)

    def _count(self, error: OSError) -> None:
        self.failures += 1
        if self.failures == 1:
            logger.warning("The journal %s cannot be written (%s); the run goes on without it.", self._path, error)


def read_journal(path: Path) -> list[JournalEntry]:
    """All entries, oldest first by position: clocks jump. Torn lines and an absent file hold no entry."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    entries = (_decode(line) for line in content.split(b"\n"))
    return [entry for entry in entries if entry is not None]


def _decode(line: bytes) -> JournalEntry | None:
    try:
        fields = json.loads(line)
        return JournalEntry(
            at=float(fields["at"]),
            event=str(fields["event"]),
            level=str(fields["level"]),
            rank=int(fields["rank"]),
            data=dict(fields["data"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _warn_of_strangers(event: str, data: dict[str, Any]) -> None:
    """A warning, because a wrong word must not stop a run; in our tests every warning is an error."""
    if event not in EVENTS:
        warnings.warn(f"the event '{event}' is not in palaestra.runs.events.EVENTS", stacklevel=3)
        return
    unknown = sorted(set(data) - set(EVENTS[event].fields))
    if unknown:
        warnings.warn(f"the event '{event}' has no field {', '.join(unknown)}", stacklevel=3)
