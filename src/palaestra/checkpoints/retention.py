"""What may go, and how it goes: the sidecar first, so that no crash leaves a promise without its files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from palaestra.checkpoints.durable import REAL, rewrite_sidecar, uncommit, uncommitted_files
from palaestra.checkpoints.locks import unused
from palaestra.checkpoints.names import epoch_of_data, model_name, owner_is_dead, trainer_state_name
from palaestra.checkpoints.selection import from_best

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palaestra.checkpoints.filesystem import FileSystem
    from palaestra.core.checkpoint import Checkpoint


@dataclass(frozen=True)
class Removed:
    epochs: tuple[int, ...] = ()
    trainer_states: tuple[int, ...] = ()  # epochs that were kept, without the means to continue from them


def superfluous(checkpoints: Sequence[Checkpoint], keep: int) -> list[Checkpoint]:
    """All but the newest `keep` (at least one), and never the best by score."""
    by_epoch = sorted(checkpoints, key=lambda one: one.epoch)
    kept = {one.epoch for one in by_epoch[-max(keep, 1) :]}
    kept.update(one.epoch for one in from_best(checkpoints)[:1])
    return [one for one in by_epoch if one.epoch not in kept]


def retain(
    directory: Path, checkpoints: Sequence[Checkpoint], keep: int, keep_trainer_states: int, fs: FileSystem = REAL
) -> Removed:
    """Remove what is superfluous and nobody uses. `checkpoints` are those that verify; the caller holds `changing`."""
    removed = [one.epoch for one in superfluous(checkpoints, keep) if _remove_unused(directory, one, fs)]
    left = sorted((one for one in checkpoints if one.epoch not in removed), key=lambda one: one.epoch)
    with_state = [one for one in left if trainer_state_name(one.epoch) in one.files]
    dropped = with_state[: -max(keep_trainer_states, 1)]
    for one in dropped:
        _drop_trainer_state(directory, one, fs)
    return Removed(tuple(removed), tuple(one.epoch for one in dropped))


def sweep(directory: Path, checkpoints: Sequence[Checkpoint], keep: int, fs: FileSystem = REAL) -> list[Path]:
    """Take away what dead writers left: temporary files, and data of epochs older than the newest `keep`.

    Newer data without a sidecar stays for a person to look at. The caller holds `changing`.
    """
    newest = sorted(one.epoch for one in checkpoints)[-max(keep, 1) :]
    stale = [path for path in directory.iterdir() if owner_is_dead(path.name)]
    stale += [path for path in uncommitted_files(directory) if newest and _epoch_of(path) < newest[0]]
    for path in stale:
        fs.unlink(path)
    return stale


def _epoch_of(path: Path) -> int:
    epoch = epoch_of_data(path.name)
    assert epoch is not None, path
    return epoch


def _remove_unused(directory: Path, checkpoint: Checkpoint, fs: FileSystem) -> bool:
    with unused(directory, checkpoint.epoch) as is_free:
        if is_free:
            uncommit(directory, checkpoint.epoch, fs)
            for name in checkpoint.files:
                fs.unlink(directory / name)
        return is_free


def _drop_trainer_state(directory: Path, checkpoint: Checkpoint, fs: FileSystem) -> None:
    name = trainer_state_name(checkpoint.epoch)
    only_weights = {model_name(checkpoint.epoch): checkpoint.files[model_name(checkpoint.epoch)]}
    rewrite_sidecar(directory, replace(checkpoint, files=only_weights), fs)
    fs.unlink(directory / name)
