"""Locks that a kill -9 cannot leave behind: the kernel drops a flock with the process that held it.

No lock file is ever made. A reader holds the weights themselves (the sidecar may be replaced under it, the weights
never are); who changes something holds the directory.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palaestra.checkpoints.errors import SaveFailed
from palaestra.checkpoints.names import model_name
from palaestra.core.errors import DamagedFile, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHANGE_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.005


@contextmanager
def changing(directory: Path, timeout_seconds: float = CHANGE_TIMEOUT_SECONDS) -> Iterator[None]:
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
        raise NotFound(f"There is no checkpoint of epoch {epoch} in {directory}.")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not _is_still(path, descriptor):
            raise NotFound(f"The checkpoint of epoch {epoch} in {directory} was removed just now.")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def unused(directory: Path, epoch: int) -> Iterator[bool]:
    """True, and nobody may begin to use it, unless somebody does already."""
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


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
