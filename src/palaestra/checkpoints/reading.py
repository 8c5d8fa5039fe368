"""Finding a checkpoint that verifies. What is damaged is named, never silently stepped over."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.checkpoints.durable import committed_epochs, described, verify
from palaestra.checkpoints.names import sidecar_name
from palaestra.checkpoints.selection import epoch_of_path, from_best, parse_selector
from palaestra.core.errors import DamagedFile, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from palaestra.core.checkpoint import Checkpoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RefusedCheckpoint:
    path: Path  # of the sidecar
    reason: str


@dataclass(frozen=True)
class Survey:
    checkpoints: tuple[Checkpoint, ...]  # from the oldest to the newest
    refused: tuple[RefusedCheckpoint, ...]


@dataclass(frozen=True)
class OpenedCheckpoint:
    checkpoint: Checkpoint
    parts: dict[str, bytes]  # file name -> verified bytes
    refused: tuple[RefusedCheckpoint, ...] = ()  # those that would have been chosen, were they not damaged


def survey(directory: Path) -> Survey:
    """Every checkpoint whose sidecar holds and whose files are there with their sizes; the bytes are not read."""
    checkpoints, refused = [], []
    for epoch in committed_epochs(directory):
        try:
            checkpoints.append(described(directory, epoch))
        except NotFound:  # removed by retention since the directory was listed
            continue
        except DamagedFile as error:
            if (directory / sidecar_name(epoch)).exists():
                refused.append(_refuse(directory, epoch, error))
    return Survey(tuple(checkpoints), tuple(refused))


def open_checkpoint(directory: Path, selector: str | int | Path = "latest") -> OpenedCheckpoint:
    """`latest` and `best` fall back to the next one that verifies; an epoch or a path is that one or an error."""
    chosen = parse_selector(selector)
    if isinstance(chosen, str):
        opened = open_best(directory) if chosen == "best" else open_latest(directory)
        if opened is None:
            raise NotFound(f"There is no checkpoint in {directory}.", "Has the run saved one yet?")
        return opened
    where = directory if isinstance(chosen, int) else chosen.parent
    epoch = chosen if isinstance(chosen, int) else epoch_of_path(chosen)
    try:
        return OpenedCheckpoint(*verify(where, epoch))
    except NotFound as error:
        there = ", ".join(map(str, committed_epochs(where))) or "none"
        raise NotFound(error.message, f"Epochs there: {there}.") from error


def open_latest(directory: Path) -> OpenedCheckpoint | None:
    """None only when there is none; `DamagedFile` when there are some and not one holds."""
    return _first_that_verifies(directory, reversed(committed_epochs(directory)), ())


def open_best(directory: Path, metric: str = "score") -> OpenedCheckpoint | None:
    """None only when there is no checkpoint at all."""
    found = survey(directory)
    if not found.checkpoints and not found.refused:
        return None
    ranked = from_best(found.checkpoints, metric)
    if found.checkpoints and not ranked:
        raise NotFound(
            f"No checkpoint in {directory} has a {metric} yet, so none is the best.",
            "Judge one with 'palaestra eval RUN', or select latest.",
        )
    return _first_that_verifies(directory, (one.epoch for one in ranked), found.refused)


def _first_that_verifies(
    directory: Path, epochs: Iterable[int], already_refused: tuple[RefusedCheckpoint, ...]
) -> OpenedCheckpoint | None:
    refused = list(already_refused)
    for epoch in epochs:
        try:
            return OpenedCheckpoint(*verify(directory, epoch), tuple(refused))
        except NotFound:  # removed by retention since the directory was listed
            continue
        except DamagedFile as error:
            if (directory / sidecar_name(epoch)).exists():
                refused.append(_refuse(directory, epoch, error))
    if refused:
        reasons = " ".join(one.reason for one in refused)
        raise DamagedFile(f"No checkpoint in {directory} can be used: {reasons}", "Restore one from a copy.")
    return None


def _refuse(directory: Path, epoch: int, error: DamagedFile) -> RefusedCheckpoint:
    logger.warning("Checkpoint %d is damaged and is not used: %s", epoch, error.message)
    return RefusedCheckpoint(directory / sidecar_name(epoch), error.message)
