"""`checkpoint_log.json`: every checkpoint a run ever made, also those that are gone by now.

It is told from the sidecars and never the other way round: lost or damaged, it is written anew.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.durable import REAL, replace_file
from palaestra.checkpoints.names import model_name
from palaestra.checkpoints.regular_file import read_regular_file
from palaestra.contracts.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from palaestra.checkpoints.filesystem import FileSystem
    from palaestra.contracts.checkpoint import Checkpoint

LOG_NAME = "checkpoint_log.json"
SCHEMA_VERSION = 1
MAX_BYTES = 64 << 20
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
    """Remembers how it worded what it wrote: of a run that has saved for hours, a save changes a line or two."""

    def __init__(self, directory: Path, fs: FileSystem = REAL) -> None:
        self._directory = directory
        self._fs = fs
        self._lines: dict[int, bytes] = {}  # of every entry by its epoch, in that order
        self._present: dict[int, LogEntry] = {}  # those that are not removed
        self._written: object = None  # how the file stood when it was written

    def update(self, present: Iterable[Checkpoint]) -> None:
        """Bring the log up to date with what is there now; what is there no more is marked removed."""
        if self._written is None or self._written != self._state():
            self._read()
        now = {checkpoint.epoch: entry_of(checkpoint) for checkpoint in present}
        gone = [replace(entry, removed=True) for epoch, entry in self._present.items() if epoch not in now]
        fresh = [entry for epoch, entry in sorted(now.items()) if self._present.get(epoch) != entry]
        self._present = now
        if not gone and not fresh:
            return
        newest = next(reversed(self._lines), -1)
        self._lines |= {entry.epoch: _worded(entry) for entry in (*gone, *fresh)}
        if fresh and fresh[0].epoch < newest:
            self._lines = dict(sorted(self._lines.items()))
        self._write()

    def _read(self) -> None:
        try:
            entries = read_log(self._directory)
        except (FileNotFoundError, DamagedFile):
            entries = []
        self._lines = {entry.epoch: _worded(entry) for entry in sorted(entries, key=lambda entry: entry.epoch)}
        self._present = {entry.epoch: entry for entry in entries if not entry.removed}

    def _write(self) -> None:
        self._written = None  # should it fail
        head = f'{{"schema_version": {SCHEMA_VERSION}, "checkpoints": [\n'.encode()
        replace_file(self._directory, LOG_NAME, head + b",\n".join(self._lines.values()) + b"\n]}\n", self._fs)
        self._written = self._state()

    def _state(self) -> object:
        """Other processes write it too: another file then stands in its place."""
        try:
            stat = (self._directory / LOG_NAME).stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _worded(entry: LogEntry) -> bytes:
    return json.dumps(vars(entry)).encode()


def _entry(data: dict[str, Any]) -> LogEntry:
    if set(data) != {field.name for field in fields(LogEntry)}:
        raise ValueError(f"an entry has the fields {sorted(data)}")
    entry = LogEntry(**data)
    if type(entry.epoch) is not int or type(entry.removed) is not bool:
        raise ValueError(f"an entry has epoch={entry.epoch!r}, removed={entry.removed!r}")
    return entry
