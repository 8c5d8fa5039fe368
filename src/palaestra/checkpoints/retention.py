"""What may go, and how it goes: the sidecar first, so that no crash leaves a promise without its files."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from palaestra.checkpoints import replay_segments
from palaestra.checkpoints.durable import (
    REAL,
    committed_epochs,
    read_sidecar,
    rewrite_sidecar,
    uncommit,
    uncommitted_files,
)
from palaestra.checkpoints.files import SaveFailed, epoch_of_data, model_name, owner_is_dead, trainer_state_name
from palaestra.checkpoints.selection import rank_from_best
from palaestra.core.errors import DamagedFile, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from palaestra.checkpoints.files import FileSystem
    from palaestra.core.checkpoint import Checkpoint


@dataclass(frozen=True)
class Removed:
    epochs: tuple[int, ...] = ()
    trainer_states: tuple[int, ...] = ()  # epochs that were kept, without the means to continue from them

    def rest(self, checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
        """Those that are left, as their sidecars describe them now."""
        dropped = frozenset(self.trainer_states)
        return [
            _only_weights(one) if one.epoch in dropped else one for one in checkpoints if one.epoch not in self.epochs
        ]


def to_remove(checkpoints: Sequence[Checkpoint], keep: int) -> list[Checkpoint]:
    """All but the newest `keep` (at least one), and never the best by score."""
    by_epoch = sorted(checkpoints, key=lambda one: one.epoch)
    kept = {one.epoch for one in by_epoch[-max(keep, 1) :]}
    kept.update(one.epoch for one in rank_from_best(checkpoints)[:1])
    return [one for one in by_epoch if one.epoch not in kept]


def retain(
    directory: Path, checkpoints: Sequence[Checkpoint], keep: int, keep_trainer_states: int, fs: FileSystem = REAL
) -> Removed:
    """Remove unused checkpoints that `keep` does not cover. The caller holds `exclusive_change`."""
    removed = [one.epoch for one in to_remove(checkpoints, keep) if _remove_unused(directory, one, fs)]
    left = sorted((one for one in checkpoints if one.epoch not in removed), key=lambda one: one.epoch)
    with_state = [one for one in left if trainer_state_name(one.epoch) in one.files]
    dropped = with_state[: -max(keep_trainer_states, 1)]
    for one in dropped:
        _drop_trainer_state(directory, one, fs)
    return Removed(tuple(removed), tuple(one.epoch for one in dropped))


def sweep(directory: Path, checkpoints: Sequence[Checkpoint], keep: int, fs: FileSystem = REAL) -> list[Path]:
    """Take away what dead writers left: temporary files, and data of epochs older than the newest `keep`.

    Newer data without a sidecar stays for inspection. The caller holds `exclusive_change`.
    """
    newest = sorted(one.epoch for one in checkpoints)[-max(keep, 1) :]
    stale = [path for path in directory.iterdir() if owner_is_dead(path.name)]
    stale += [path for path in uncommitted_files(directory) if newest and _epoch_of(path) < newest[0]]
    for path in stale:
        fs.unlink(path)
    return stale + sweep_segments(directory, checkpoints, fs)


def sweep_segments(directory: Path, checkpoints: Sequence[Checkpoint] = (), fs: FileSystem = REAL) -> list[Path]:
    """Removes segments of replay buffers that no sidecar names. The caller holds `exclusive_change`."""
    if not (directory / replay_segments.FOLDER).is_dir():
        return []
    return replay_segments.sweep(directory, _named_segments(directory, checkpoints), fs)


def _named_segments(directory: Path, checkpoints: Sequence[Checkpoint]) -> Iterator[str]:
    """Also by checkpoints with damaged files: these may be restored from a copy."""
    for one in checkpoints:
        yield from one.replay_segments
    for epoch in set(committed_epochs(directory)) - {one.epoch for one in checkpoints}:
        try:
            yield from read_sidecar(directory, epoch).replay_segments
        except (DamagedFile, NotFound):
            continue


def _epoch_of(path: Path) -> int:
    epoch = epoch_of_data(path.name)
    assert epoch is not None, path
    return epoch


def _remove_unused(directory: Path, checkpoint: Checkpoint, fs: FileSystem) -> bool:
    with reserve_if_unused(directory, checkpoint.epoch) as is_free:
        if is_free:
            uncommit(directory, checkpoint.epoch, fs)
            for name in checkpoint.files:
                fs.unlink(directory / name)
        return is_free


def _drop_trainer_state(directory: Path, checkpoint: Checkpoint, fs: FileSystem) -> None:
    name = trainer_state_name(checkpoint.epoch)
    rewrite_sidecar(directory, _only_weights(checkpoint), fs)
    fs.unlink(directory / name)


def _only_weights(checkpoint: Checkpoint) -> Checkpoint:
    name = model_name(checkpoint.epoch)
    return replace(checkpoint, files={name: checkpoint.files[name]}, replay_segments={})


CHANGE_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.005


@contextmanager
def exclusive_change(directory: Path, timeout_seconds: float = CHANGE_TIMEOUT_SECONDS) -> Iterator[None]:
    """One writer at a time: the trainer that saves, the evaluation that writes a score, the retention."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SaveFailed(f"{directory} cannot be opened: {error.strerror}.") from error
    try:
        give_up_at = time.monotonic() + timeout_seconds
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > give_up_at:
                raise SaveFailed(f"{directory} has been locked by another process for {timeout_seconds:g} s.")
            time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def in_use(directory: Path, epoch: int) -> Iterator[None]:
    """While this is held, by any process, retention leaves the checkpoint alone."""
    path = directory / model_name(epoch)
    descriptor = _open_if_there(path)
    if descriptor is None:
        raise NotFound(f"No checkpoint of epoch {epoch} in {directory}.")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not _is_unchanged(path, descriptor):
            raise NotFound(f"The checkpoint of epoch {epoch} in {directory} was removed just now.")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def reserve_if_unused(directory: Path, epoch: int) -> Iterator[bool]:
    """Yields whether the checkpoint is not in use; while it is True, no process can start to use it."""
    descriptor = _open_if_there(directory / model_name(epoch))
    if descriptor is None:
        yield True
        return
    try:
        yield _try_lock(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _open_if_there(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFile(f"{path} cannot be opened: {error.strerror}.") from error


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_unchanged(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
