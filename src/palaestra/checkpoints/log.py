"""`checkpoint_log.json`: every checkpoint a run ever made, also those that are gone by now.

It is told from the sidecars and never the other way round: lost or damaged, it is written anew.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
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


def update_log(directory: Path, present: Iterable[Checkpoint], fs: FileSystem = REAL) -> list[LogEntry]:
    """Bring the log up to date with what is there now; what is there no more is marked removed."""
    try:
        before = {entry.epoch: entry for entry in read_log(directory)}
    except (FileNotFoundError, DamagedFile):
        before = {}
    now = {checkpoint.epoch: entry_of(checkpoint) for checkpoint in present}
    gone = {epoch: replace(entry, removed=True) for epoch, entry in before.items() if epoch not in now}
    after = dict(sorted((gone | now).items()))
    if after != before:
        content = {"schema_version": SCHEMA_VERSION, "checkpoints": [asdict(entry) for entry in after.values()]}
        replace_file(directory, LOG_NAME, (json.dumps(content, indent=1) + "\n").encode(), fs)
    return list(after.values())


def _entry(data: dict[str, Any]) -> LogEntry:
    if set(data) != {field.name for field in fields(LogEntry)}:
        raise ValueError(f"an entry has the fields {sorted(data)}")
    entry = LogEntry(**data)
    if type(entry.epoch) is not int or type(entry.removed) is not bool:
        raise ValueError(f"an entry has epoch={entry.epoch!r}, removed={entry.removed!r}")
    return entry
