"""`checkpoint_log.json`: every checkpoint a run ever made, also those that are gone by now.

It is told from the sidecars and never the other way round: lost or damaged, it is written anew.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.durable import REAL
from palaestra.checkpoints.log_lines import LogLines
from palaestra.checkpoints.names import model_name
from palaestra.checkpoints.regular_file import read_regular_file
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from palaestra.checkpoints.filesystem import FileSystem
    from palaestra.core.checkpoint import Checkpoint

LOG_NAME = "checkpoint_log.json"
SCHEMA_VERSION = 1
HEAD = f'{{"schema_version": {SCHEMA_VERSION}, "checkpoints": [\n'.encode()
MAX_BYTES = 64 << 20
LIBRARY_KEYS = {"timestamp": "time", "step": "agent_step", "run_duration": "total_time"}  # of the same values
EPISODES_METRIC = "episodes"  # episodes ended so far, when the trainer counts them


@dataclass(frozen=True)
class LogEntry:
    epoch: int
    agent_step: int
    episode: int | None  # None: the trainer did not count
    time: str  # ISO 8601, UTC
    total_time: float  # seconds of training so far
    file: str
    removed: bool = False  # by retention; the files are gone


def entry_of(checkpoint: Checkpoint) -> LogEntry:
    episodes = checkpoint.metrics.get(EPISODES_METRIC)
    return LogEntry(
        epoch=checkpoint.epoch,
        agent_step=checkpoint.agent_step,
        episode=int(episodes) if episodes is not None and math.isfinite(episodes) else None,
        time=datetime.fromtimestamp(checkpoint.saved_at, UTC).isoformat(timespec="milliseconds"),
        total_time=checkpoint.total_time,
        file=model_name(checkpoint.epoch),
    )


def read_log(directory: Path) -> list[LogEntry]:
    """By epoch; `FileNotFoundError` when lost and `DamagedFile` when it cannot be trusted, so that it is rebuilt."""
    path = directory / LOG_NAME
    raw = read_regular_file(path, MAX_BYTES)
    try:
        content = json.loads(raw)
        if content["schema_version"] != SCHEMA_VERSION:
            raise DamagedFile(f"{path}: format {content['schema_version']}, this version reads {SCHEMA_VERSION}.")
        return [_entry(data) for data in content["checkpoints"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFile(f"{path} cannot be read ({error}).") from error


class CheckpointLog:
    """Remembers only what is there now: of a run that has saved for hours, a save changes a line or two."""

    def __init__(self, directory: Path, fs: FileSystem = REAL) -> None:
        self._directory = directory
        self._lines = LogLines(directory / LOG_NAME, HEAD, fs)
        self._present: dict[int, LogEntry] = {}  # those that are not removed, while the lines are known

    def update(self, present: Iterable[Checkpoint]) -> None:
        """Bring the log up to date with what is there now; what is there no more is marked removed."""
        now = {checkpoint.epoch: entry_of(checkpoint) for checkpoint in present}
        changed = _changes(self._present, now)
        if not self._lines.are_known or not self._lines.can_change(changed):
            self._write_anew(now)
        elif changed:
            self._lines.change({epoch: _worded(entry) for epoch, entry in changed.items()}, now)
        self._present = now

    def _write_anew(self, now: dict[int, LogEntry]) -> None:
        """With what the file says: at the beginning, after another process, and where a run repeats old epochs."""
        try:
            entries = {entry.epoch: entry for entry in read_log(self._directory)}
        except (FileNotFoundError, DamagedFile):
            entries = {}
        changed = _changes({epoch: entry for epoch, entry in entries.items() if not entry.removed}, now)
        if changed:
            all_of_them = sorted((entries | changed).items())
            self._lines.write({epoch: _worded(entry) for epoch, entry in all_of_them}, now)


def _changes(before: dict[int, LogEntry], now: dict[int, LogEntry]) -> dict[int, LogEntry]:
    """By epoch, in order."""
    gone = {epoch: replace(entry, removed=True) for epoch, entry in before.items() if epoch not in now}
    fresh = {epoch: entry for epoch, entry in now.items() if before.get(epoch) != entry}
    return dict(sorted((gone | fresh).items()))


def entry_fields(entry: LogEntry) -> dict[str, Any]:
    """An entry as it stands in the file: with its names, and beside them those that other tools look for."""
    return {**vars(entry), **{name: getattr(entry, own) for name, own in LIBRARY_KEYS.items()}}


def _worded(entry: LogEntry) -> bytes:
    return json.dumps(entry_fields(entry)).encode()


def _entry(data: dict[str, Any]) -> LogEntry:
    own = {name: value for name, value in data.items() if name not in LIBRARY_KEYS}
    if set(own) != {field.name for field in fields(LogEntry)}:
        raise ValueError(f"an entry has the fields {sorted(data)}")
    entry = LogEntry(**own)
    if type(entry.epoch) is not int or type(entry.removed) is not bool:
        raise ValueError(f"an entry has epoch={entry.epoch!r}, removed={entry.removed!r}")
    return entry
