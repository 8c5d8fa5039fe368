"""Write so that a crash at any instant leaves the old checkpoint or the new one, and read only what verifies.

The order is the whole point:
data files under temporary names, each synced, renamed; the directory synced; only then the sidecar, the same way.
A sidecar that can be read therefore promises that its files were on the disk before it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from palaestra.checkpoints import sidecar as sidecar_text
from palaestra.checkpoints.files import (
    FileSystem,
    RealFileSystem,
    SaveFailed,
    epoch_of_data,
    epoch_of_sidecar,
    read_regular_file,
    sidecar_name,
    temporary_name,
)
from palaestra.core.errors import DamagedFile, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from palaestra.checkpoints.files import Content
    from palaestra.core.checkpoint import Checkpoint

Found = TypeVar("Found")

REAL = RealFileSystem()
READ_ATTEMPTS = 5  # a sidecar may be replaced while its files are read; then they are read again


def commit(
    directory: Path, epoch: int, parts: Mapping[str, bytes], sidecar: Checkpoint, fs: FileSystem = REAL
) -> Checkpoint:
    """Make `parts` (file name -> bytes) and their sidecar durable together; when this returns, they are on the disk.

    An `OSError` on the way becomes `SaveFailed`: what was committed before is intact, what was begun is removed.
    """
    described = replace(sidecar, epoch=epoch, files={name: sidecar_text.digest(data) for name, data in parts.items()})
    text = sidecar_text.encode(described)
    leftovers: list[Path] = []
    try:
        for name, data in parts.items():
            leftovers.append(directory / temporary_name(name))
            fs.write_temporary(leftovers[-1], data)
        if (directory / sidecar_name(epoch)).exists():  # saved anew: only now, when the disk has room for it
            uncommit(directory, epoch, fs)
        for name in parts:
            fs.rename(directory / temporary_name(name), directory / name)
            leftovers.append(directory / name)
        fs.fsync_directory(directory)
        leftovers.append(directory / temporary_name(sidecar_name(epoch)))
        fs.write_temporary(leftovers[-1], text)
        fs.rename(leftovers[-1], directory / sidecar_name(epoch))
        leftovers.clear()
        fs.fsync_directory(directory)
    except OSError as error:
        raise save_failed(f"Checkpoint {epoch}", directory, error) from error
    finally:
        _remove(leftovers)
    return replace(sidecar_text.decode(text, sidecar_name(epoch)), path=directory / sidecar_name(epoch))


def replace_file(directory: Path, name: str, data: Content, fs: FileSystem = REAL) -> None:
    """One small file, old or new, never half: for sidecars that change their mind and for the log."""
    temporary = directory / temporary_name(name)
    try:
        fs.write_temporary(temporary, data)
        fs.rename(temporary, directory / name)
        fs.fsync_directory(directory)
    except OSError as error:
        raise save_failed(name, directory, error) from error
    finally:
        _remove([temporary])


def rewrite_sidecar(directory: Path, changed: Checkpoint, fs: FileSystem = REAL) -> Checkpoint:
    """The same files, described anew."""
    replace_file(directory, sidecar_name(changed.epoch), sidecar_text.encode(changed), fs)
    return replace(changed, path=directory / sidecar_name(changed.epoch))


def uncommit(directory: Path, epoch: int, fs: FileSystem = REAL) -> None:
    """Take the sidecar away for good, before anything is done to its files."""
    fs.unlink(directory / sidecar_name(epoch))
    fs.fsync_directory(directory)


def verify(directory: Path, epoch: int) -> tuple[Checkpoint, dict[str, bytes]]:
    """The checkpoint and the bytes of its files, all checked against the sidecar.

    `NotFound` when there is no such checkpoint, `DamagedFile` (with the file and what is wrong) when it does not hold.
    """
    return retry_while_replaced(
        partial(read_sidecar, directory, epoch),
        lambda checkpoint: {name: _verified_bytes(directory, name, checkpoint) for name in checkpoint.files},
    )


def retry_while_replaced(
    read: Callable[[], Checkpoint], inspect: Callable[[Checkpoint], Found]
) -> tuple[Checkpoint, Found]:
    """The sidecar and what `inspect` finds in its files.

    Another process may replace the sidecar in between (a trainer state was dropped): then both are read again.
    """
    checkpoint = read()
    for _ in range(READ_ATTEMPTS):
        try:
            return checkpoint, inspect(checkpoint)
        except DamagedFile:
            again = read()
            if again.files == checkpoint.files:
                raise
            checkpoint = again
    raise DamagedFile(f"{checkpoint.path} changes faster than its files can be read.")


def read_sidecar(directory: Path, epoch: int) -> Checkpoint:
    """What the sidecar says, without reading its files; it must speak of its own epoch."""
    path = directory / sidecar_name(epoch)
    try:
        raw = read_regular_file(path, sidecar_text.MAX_BYTES)
    except FileNotFoundError as error:
        raise NotFound(f"No checkpoint of epoch {epoch} in {directory}.") from error
    checkpoint = sidecar_text.decode(raw, str(path), path)
    if checkpoint.epoch != epoch:
        raise DamagedFile(f"{path}: speaks of epoch {checkpoint.epoch} (copied over from another checkpoint?).")
    return checkpoint


def read_checked(directory: Path, epoch: int) -> Checkpoint:
    """The cheap half of `verify`, for listings: every file is there with its size; raises the same."""
    return retry_while_replaced(partial(read_sidecar, directory, epoch), partial(check_sizes, directory))[0]


def check_sizes(directory: Path, checkpoint: Checkpoint) -> None:
    """Every file is there with its size."""
    for name, expected in checkpoint.files.items():
        try:
            size = (directory / name).stat(follow_symlinks=False).st_size
        except FileNotFoundError as error:
            raise DamagedFile(f"{directory / name} is missing.") from error
        _check_size(directory / name, size, expected["size"])


def committed_epochs(directory: Path) -> list[int]:
    """Epochs that have a sidecar, from the oldest to the newest, by number."""
    try:
        names = [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(epoch for name in names if (epoch := epoch_of_sidecar(name)) is not None)


def uncommitted_files(directory: Path) -> list[Path]:
    """Weights and trainer states that no sidecar vouches for: the remains of a crash, never served."""
    if not directory.is_dir():
        return []
    committed = set(committed_epochs(directory))
    return sorted(path for path in directory.iterdir() if epoch_of_data(path.name) not in committed | {None})


def _verified_bytes(directory: Path, name: str, checkpoint: Checkpoint) -> bytes:
    path, expected = directory / name, checkpoint.files[name]
    try:
        size = path.stat(follow_symlinks=False).st_size
        _check_size(path, size, expected["size"])
        data = read_regular_file(path, expected["size"])
    except FileNotFoundError as error:
        raise DamagedFile(f"{path} is missing.") from error
    if sidecar_text.digest(data) != expected:
        raise DamagedFile(f"{path}: its bytes are not those that were saved (sha256 differs).")
    return data


def _check_size(path: Path, size: int, expected: int) -> None:
    if size != expected:
        raise DamagedFile(f"{path}: {size} bytes, the sidecar says {expected} (cut short?).")


def _remove(paths: list[Path]) -> None:
    for path in paths:
        try:
            path.unlink()
        except OSError:  # gone, or the disk is failing: then the sweep of dead writers' files comes by later
            continue


def save_failed(what: str, directory: Path, error: OSError) -> SaveFailed:
    reason = error.strerror or str(error)
    return SaveFailed(
        f"{what} could not be saved in {directory}: {reason}.", "What was saved before is intact; is there space?"
    )
