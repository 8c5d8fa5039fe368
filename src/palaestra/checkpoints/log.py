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
from palaestra.checkpoints.files import model_name, read_regular_file
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping
    from pathlib import Path

    from palaestra.checkpoints.files import Content, FileSystem
    from palaestra.core.checkpoint import Checkpoint

    Place = tuple[int, int]  # where a line begins and ends, in bytes

LOG_NAME = "checkpoint_log.json"
SCHEMA_VERSION = 1
HEAD = f'{{"schema_version": {SCHEMA_VERSION}, "checkpoints": [\n'.encode()
MAX_BYTES = 64 << 20
KEY_ALIASES = {"timestamp": "time", "step": "agent_step", "run_duration": "total_time"}  # of the same values
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
        if not self._lines.are_logged or not self._lines.is_editable(changed):
            self._write_anew(now)
        elif changed:
            self._lines.change({epoch: _encode_entry(entry) for epoch, entry in changed.items()}, now)
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
            self._lines.write({epoch: _encode_entry(entry) for epoch, entry in all_of_them}, now)


def _changes(before: dict[int, LogEntry], now: dict[int, LogEntry]) -> dict[int, LogEntry]:
    """By epoch, in order."""
    gone = {epoch: replace(entry, removed=True) for epoch, entry in before.items() if epoch not in now}
    fresh = {epoch: entry for epoch, entry in now.items() if before.get(epoch) != entry}
    return dict(sorted((gone | fresh).items()))


def entry_fields(entry: LogEntry) -> dict[str, Any]:
    """An entry as it stands in the file: with its names, and beside them those that other tools look for."""
    return {**vars(entry), **{name: getattr(entry, own) for name, own in KEY_ALIASES.items()}}


def _encode_entry(entry: LogEntry) -> bytes:
    return json.dumps(entry_fields(entry)).encode()


def _entry(data: dict[str, Any]) -> LogEntry:
    own = {name: value for name, value in data.items() if name not in KEY_ALIASES}
    if set(own) != {field.name for field in fields(LogEntry)}:
        raise ValueError(f"an entry has the fields {sorted(data)}")
    entry = LogEntry(**own)
    if type(entry.epoch) is not int or type(entry.removed) is not bool:
        raise ValueError(f"an entry has epoch={entry.epoch!r}, removed={entry.removed!r}")
    return entry


BETWEEN, TAIL = b",\n", b"\n]}\n"
COPIED_BYTES = 1 << 16


class LogLines:
    """By epoch, in that order. The file is replaced whole, so that it is the old one or the new one."""

    def __init__(self, path: Path, head: bytes, fs: FileSystem = REAL) -> None:
        self._path = path
        self._head = head
        self._fs = fs
        self._places: dict[int, Place] = {}  # of lines that may still change, in order
        self._end = 0  # of the last line
        self._newest = -1  # its epoch
        self._written: object = None  # how the file stood when it was written

    @property
    def are_logged(self) -> bool:
        """The file is what was last written here. Other processes write it too: another then stands in its place."""
        return self._written is not None and self._written == self._state()

    def is_editable(self, epochs: Iterable[int]) -> bool:
        """Whether they are new at the end, or were said to change."""
        return all(epoch in self._places or epoch > self._newest for epoch in epochs)

    def write(self, lines: Mapping[int, bytes], may_change: Container[int]) -> None:
        """All lines there are, in order."""
        places, begin = {}, len(self._head)
        for epoch, line in lines.items():
            if epoch in may_change:
                places[epoch] = (begin, begin + len(line))
            begin += len(line) + len(BETWEEN)
        text = self._head + BETWEEN.join(lines.values()) + TAIL
        self._replace(text, places, len(text) - len(TAIL), max(lines))

    def change(self, lines: Mapping[int, bytes], may_change: Container[int]) -> None:
        """Those that `can_change`, in order; `may_change` are all that still may."""
        edits, places, moved = [], {}, 0
        for epoch, (begin, end) in self._places.items():
            line = lines.get(epoch)
            longer = 0 if line is None else len(line) - (end - begin)
            if line is not None:
                edits.append((begin, end, line))
            if epoch in may_change:
                places[epoch] = (begin + moved, end + moved + longer)
            moved += longer
        added, end = b"", self._end + moved
        for epoch, line in lines.items():
            if epoch > self._newest:
                added += BETWEEN + line
                places[epoch] = (end + len(added) - len(line), end + len(added))
        edits.append((self._end, self._end + len(TAIL), added + TAIL))
        self._replace(_edit(self._path, edits), places, end + len(added), max(self._newest, *lines))

    def _replace(self, content: Content, places: dict[int, Place], end: int, newest: int) -> None:
        self._written = None  # should it fail
        replace_file(self._path.parent, self._path.name, content, self._fs)
        self._places, self._end, self._newest = places, end, newest
        self._written = self._state()

    def _state(self) -> object:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _edit(path: Path, edits: Iterable[tuple[int, int, bytes]]) -> Iterator[bytes]:
    """The file's text, with other words from `begin` to `end` of each edit."""
    with path.open("rb") as file:
        at = 0
        for begin, end, words in edits:
            file.seek(at)
            while at < begin:
                piece = file.read(min(begin - at, COPIED_BYTES))
                if not piece:
                    raise OSError(f"{path} became shorter while it was read")
                yield piece
                at += len(piece)
            yield words
            at = end
