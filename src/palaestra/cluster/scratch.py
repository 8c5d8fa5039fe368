"""A folder of runs on a machine that does not see the driver's: it is removed with the process that made it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

PREFIX = "palaestra-run-"


class ScratchDirectory:
    """Nobody else may enter it. What a process left that was killed, the next one here removes.

    A lock says that its owner is alive; a pid would not, where several containers share one folder.
    """

    def __init__(self, base: Path | None = None) -> None:
        base = base or Path(tempfile.gettempdir())
        remove_abandoned(base)
        self.path = base / f"{PREFIX}{uuid4().hex}"
        self._lock = _hold_new(self.path)
        self.path.mkdir(mode=0o700)

    def close(self) -> None:
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            _lock_file(self.path).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def remove_abandoned(base: Path) -> None:
    """Folders whose owners are no more."""
    for path in base.glob(f"{PREFIX}*.lock"):
        with suppress(OSError):  # another user's, or gone meanwhile
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink()
            finally:
                os.close(descriptor)


def _hold_new(folder: Path) -> int:
    """Before the folder is made: whoever cleans up meanwhile must not take it for abandoned."""
    path = _lock_file(folder)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False)):
                return descriptor
        os.close(descriptor)  # it was removed between the two calls


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")
