"""One trainer per run directory. The kernel frees the lock of a process that was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from palaestra.core.errors import PalaestraError, UsageError
from palaestra.runs.files import sweep_temporaries
from palaestra.runs.status import read_written_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

_held: set[int] = set()


class AlreadyHeld(Exception):
    """Somebody else holds the lock; `pid` is None when it could not be read."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"held by process {pid}")
        self.pid = pid


@contextlib.contextmanager
def run_lock(directory: RunDirectory) -> Iterator[None]:
    """Hold this run for as long as the block lasts. What a holder that was killed had half written is gone then."""
    try:
        with hold(directory.lock_file):
            sweep_temporaries(directory.path)
            yield
    except AlreadyHeld as error:
        who = f"process {error.pid}" if error.pid else "another process"
        raise UsageError(
            f"Run '{_name_of(directory)}' is being trained by {who}.",
            "Wait for it, stop it with 'palaestra runs stop', or train under another name with run=NAME.",
        ) from error


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """An exclusive lock on a separate file that contains the pid of its holder."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path} cannot be opened: {error.strerror}.", "Is the directory writable?") from error
    try:
        _lock(descriptor)
        _held.add(descriptor)
        _leave_pid(descriptor)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _leave_pid(descriptor: int) -> None:
    """Best effort: on a full disk the lock works too, but its file names no holder."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).strip()
        raise AlreadyHeld(int(text) if text.isdigit() else None) from None


def _name_of(directory: RunDirectory) -> str:
    try:
        return read_written_record(directory).name
    except PalaestraError:
        return directory.id


def _let_go_in_child() -> None:
    """A forked environment worker must not keep the run locked after its trainer was killed."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
