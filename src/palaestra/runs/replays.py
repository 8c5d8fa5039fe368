"""The replays of a run, by age."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.core.errors import NotFound
from palaestra.core.evaluation import DEFAULT
from palaestra.runs.replay_file import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory


def replay_path(directory: Path, epoch: int, seed: int, simulation: str = DEFAULT) -> Path:
    """Named like the videos of the same episodes"""
    name = "" if simulation == DEFAULT else f"{simulation}-"
    return directory / f"{epoch}-{name}seed{seed}{SUFFIX}"


def list_replays(directory: RunDirectory) -> list[Path]:
    """Newest first; those of one instant by name"""
    found = directory.replays.glob(f"*{SUFFIX}")
    files = [path for path in found if path.is_file() and not path.name.startswith(".")]
    return sorted(files, key=lambda path: (-path.stat().st_mtime_ns, path.name))


def newest_replay(directory: RunDirectory) -> Path:
    found = list_replays(directory)
    if not found:
        raise NotFound(
            f"Run {directory.id} has no replay.",
            f"'palaestra eval {directory.id} --replays' records the episodes it plays.",
        )
    return found[0]
