"""What a run takes on the disk, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.runs.directory import REPLAY_SEGMENTS

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

BLOCK_BYTES = 512  # of `st_blocks`, whatever the file system's own blocks are
OTHER = "other"


@dataclass(frozen=True)
class DiskUse:
    parts: dict[str, int]  # bytes by part, the largest first; parts that take nothing are left out

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def measure_disk_use(directory: RunDirectory, curves: Path | None = None) -> DiskUse:
    """`curves`: where a daemon keeps its copy of the run's curves. What goes away meanwhile counts as nothing."""
    parts: dict[str, int] = {}
    for path in _entries(directory.path):
        part = _part_of(directory, path)
        parts[part] = parts.get(part, 0) + _bytes_of(path)
    if rows := _bytes_of(directory.checkpoints / REPLAY_SEGMENTS):
        parts["replay buffer"] = rows
        parts[directory.checkpoints.name] -= rows
    if curves is not None:
        parts["curves of the daemon"] = _bytes_of(curves)
    filled = {part: size for part, size in parts.items() if size}
    return DiskUse(dict(sorted(filled.items(), key=lambda one: -one[1])))


def _part_of(directory: RunDirectory, path: Path) -> str:
    if path.name.startswith(directory.metrics_file.name) or path == directory.metrics_csv_file:
        return "metrics"
    if path in {directory.tensorboard, directory.tensorboard_eval}:
        return "tensorboard"
    if path == directory.journal_file:
        return "journal"
    return path.name if path.is_dir() and not path.is_symlink() else OTHER


def _bytes_of(path: Path) -> int:
    """Of a file, or of all that is below; links are not followed."""
    try:
        found = path.lstat()
    except OSError:
        return 0
    own = found.st_blocks * BLOCK_BYTES
    if path.is_symlink() or not path.is_dir():
        return own
    return own + sum(map(_bytes_of, _entries(path)))


def _entries(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []
