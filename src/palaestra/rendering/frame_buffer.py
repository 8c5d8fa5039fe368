"""The file behind a frame buffer: made and removed by one owner, opened by all others with nothing in it believed."""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from .buffer_paths import VARIABLE, all_frame_buffers
from .errors import FrameBufferNotFound, InvalidFrameBuffer
from .layout import ABOUT, ABOUT_AT, CHECK, About, unpack_about

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType
    from typing import Self

logger = logging.getLogger(__name__)

OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
OWNER_ONLY = 0o600


class FrameBufferOwner:
    """Makes the file and removes it again, in the process that made it and in no child of that."""

    def __init__(self, path: Path, slot_count: int, capacity: int, started_at: float) -> None:
        """OSError when there is no room, or the name is taken; FrameBufferNotFound when the folder is gone.

        `started_at`: of this process.
        """
        self.path = path
        self._pid = os.getpid()
        self.about = About(slot_count, capacity, self._pid, started_at, time.time())
        self.descriptor = _create(path)
        try:
            # A mapped page for which there is no room would be a SIGBUS later; here it is an error that can be told.
            # Written and not reserved: not every file system can reserve.
            _write_zeros(self.descriptor, self.about.head_bytes)
            os.truncate(self.descriptor, self.about.file_bytes)  # pictures take up memory when they are written
            os.pwrite(self.descriptor, self.about.pack(), ABOUT_AT)
        except OSError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self.descriptor >= 0 and os.getpid() == self._pid:
            with suppress(FileNotFoundError):
                self.path.unlink()
        self._let_go()

    def _let_go(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


def _create(path: Path) -> int:
    try:
        return os.open(path, OPEN | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except FileNotFoundError as error:
        hint = f"Make it, or let {VARIABLE} name one that is there, for the daemon too."
        raise FrameBufferNotFound(f"There is no folder {path.parent} to make frame buffers in.", hint) from error


def _write_zeros(descriptor: int, count: int) -> None:
    done = os.pwrite(descriptor, bytes(count), 0)
    if done != count:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FrameBufferFile:
    """A frame buffer of somebody else, opened."""

    def __init__(self, path: Path) -> None:
        """FrameBufferNotFound when there is none; InvalidFrameBuffer, with the reason, when it is not ours."""
        self.path = path
        try:
            self.descriptor = os.open(path, OPEN | os.O_NONBLOCK)
        except FileNotFoundError as error:
            hint = "Is the run alive, and its live view on?"
            raise FrameBufferNotFound(f"There is no frame buffer {path}.", hint) from error
        except OSError as error:
            raise InvalidFrameBuffer(f"The frame buffer {path} cannot be opened: {error.strerror}.") from error
        try:
            self.about = _read_about(self.descriptor, path)
        except InvalidFrameBuffer:
            self.close()
            raise

    @property
    def is_removed(self) -> bool:
        """Its owner took it away; another of the same name is another frame buffer."""
        return os.fstat(self.descriptor).st_nlink == 0

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


def _read_about(descriptor: int, path: Path) -> About:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise InvalidFrameBuffer(f"{path} is no frame buffer: it is no regular file of this user.")
    about = unpack_about(os.pread(descriptor, ABOUT.size + CHECK.size, ABOUT_AT))
    if isinstance(about, str):
        raise InvalidFrameBuffer(f"{path} is no frame buffer: {about}.")
    if found.st_size != about.file_bytes:
        raise InvalidFrameBuffer(f"{path} is no frame buffer: it has {found.st_size} bytes, not {about.file_bytes}.")
    return about


def remove_dead_frame_buffers(is_alive: Callable[[int, float], bool]) -> list[Path]:
    """Remove the frame buffers whose owner (pid and start time) is no more; what is not ours is left alone."""
    removed = []
    for path in all_frame_buffers():
        try:
            found = FrameBufferFile(path)
        except (InvalidFrameBuffer, FrameBufferNotFound):
            if _is_unfinished(path):
                removed.append(path)
            continue
        found.close()
        if not is_alive(found.about.owner_pid, found.about.owner_started_at):
            with suppress(OSError):
                path.unlink()
                removed.append(path)
    return removed


UNFINISHED_SECONDS = 60.0  # nobody takes so long to make one


def _is_unfinished(path: Path) -> bool:
    """Its owner was killed before it wrote the first word; then it is removed here."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return False
        if time.time() - found.st_mtime < UNFINISHED_SECONDS:
            return False
        path.unlink()
    except OSError as error:
        if error.errno != errno.ENOENT:
            logger.warning("The frame buffer %s is of no use and cannot be removed: %s.", path, error.strerror)
        return False
    return True
