"""Frame buffers as files: their paths, their owner, and checked access for every other process."""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .frame_format import ABOUT, ABOUT_AT, CHECK, About, unpack_about

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

logger = logging.getLogger(__name__)

VARIABLE, OLD_VARIABLE = "PALAESTRA_FRAME_BUFFERS_DIR", "PALAESTRA_LANES_DIR"
MEMORY = Path("/dev/shm")  # noqa: S108  frame buffers are made with O_EXCL and mode 0600
MIN_MEMORY = 8 << 20  # bytes in all; the frames of a few small tiles
PREFIX, SUFFIX = "palaestra-", ".frames"
WORD = re.compile(r"[A-Za-z0-9_]{1,64}")
TRAIN, EVALUATE = "train", "eval"
OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
OWNER_ONLY = 0o600


class FrameBufferError(OSError):
    """A frame buffer cannot be used; the text says why."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class FrameBufferNotFound(FrameBufferError):
    """The frame buffer, or the directory for it, does not exist."""


class InvalidFrameBuffer(FrameBufferError):
    """The file is not a frame buffer of this version and user."""


class InvalidRequest(ValueError):
    """A viewer requests something impossible, or there are too many viewers."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


def frame_buffers_directory() -> Path:
    """Shared memory if it is writable, else the directory for temporary files.

    The result depends on nothing that changes while runs start and end, so every process gets the same one.
    """
    directory = os.environ.get(VARIABLE) or os.environ.get(OLD_VARIABLE)
    if directory:
        return Path(directory)
    return MEMORY if _is_usable(MEMORY) else Path(tempfile.gettempdir())


def _is_usable(directory: Path) -> bool:
    """False where a container has it read-only, without permission, or with size 0."""
    if not os.access(directory, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(directory)
    return found.f_blocks * found.f_frsize >= MIN_MEMORY


def frame_buffer_path(run_id: str, role: str = TRAIN) -> Path:
    """`role`: what the process does for the run ("train", "eval"); every role has its own frame buffer."""
    for word in (run_id, role):
        if not WORD.fullmatch(word):
            raise InvalidRequest(f"Invalid name for a frame buffer: {word[:80]!r}.", "Use letters, digits and _.")
    return frame_buffers_directory() / f"{PREFIX}{run_id}-{role}{SUFFIX}"


def role_of_rank(rank: int) -> str:
    """The role of a training rank. Every rank has its own environments, and so its own frame buffer."""
    return TRAIN if rank == 0 else f"{TRAIN}{rank}"


def roles_of(run_id: str) -> list[str]:
    """Roles of the run's existing frame buffers, training first."""
    prefix = frame_buffer_path(run_id, "x").name.removesuffix(f"x{SUFFIX}")
    found = [path.name.removeprefix(prefix).removesuffix(SUFFIX) for path in all_frame_buffers(f"{run_id}-")]
    return sorted(found, key=lambda role: (not role.startswith(TRAIN), len(role), role))


def all_frame_buffers(run: str = "") -> list[Path]:
    return sorted(frame_buffers_directory().glob(f"{PREFIX}{run}*{SUFFIX}"))


class FrameBufferOwner:
    """Creates the file and removes it on close, but not in forked children."""

    def __init__(self, path: Path, slot_count: int, capacity: int, started_at: float) -> None:
        """Raises OSError if memory is short or the file exists, FrameBufferNotFound if the directory does not exist.

        `started_at`: start time of this process.
        """
        self.path = path
        self._pid = os.getpid()
        self.about = About(slot_count, capacity, self._pid, started_at, time.time())
        self.descriptor = _create(path)
        try:
            # Without this, a mapped page without room would raise SIGBUS later; here it is an error with a message.
            # Written and not reserved: not every file system can reserve.
            _write_zeros(self.descriptor, self.about.head_bytes)
            os.truncate(self.descriptor, self.about.file_bytes)  # images take up memory only when written
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
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


def _create(path: Path) -> int:
    try:
        return os.open(path, OPEN | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except FileNotFoundError as error:
        hint = f"Create it, or set {VARIABLE} to an existing one, for the daemon too."
        raise FrameBufferNotFound(f"The directory for frame buffers does not exist: {path.parent}.", hint) from error


def _write_zeros(descriptor: int, count: int) -> None:
    done = os.pwrite(descriptor, bytes(count), 0)
    if done != count:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FrameBufferFile:
    """A frame buffer that another process owns. Its content is checked, not trusted."""

    def __init__(self, path: Path) -> None:
        """Raises FrameBufferNotFound, or InvalidFrameBuffer with the reason."""
        self.path = path
        try:
            self.descriptor = os.open(path, OPEN | os.O_NONBLOCK)
        except FileNotFoundError as error:
            hint = "Is the run alive, and is its live view on?"
            raise FrameBufferNotFound(f"The frame buffer does not exist: {path}.", hint) from error
        except OSError as error:
            raise InvalidFrameBuffer(f"The frame buffer {path} cannot be opened: {error.strerror}.") from error
        try:
            self.about = _read_about(self.descriptor, path)
        except InvalidFrameBuffer:
            self.close()
            raise

    @property
    def is_removed(self) -> bool:
        """Whether the owner removed the file; a new file of the same name is another frame buffer."""
        return os.fstat(self.descriptor).st_nlink == 0

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


def _read_about(descriptor: int, path: Path) -> About:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise InvalidFrameBuffer(f"{path} is not a frame buffer: it is not a regular file of this user.")
    about = unpack_about(os.pread(descriptor, ABOUT.size + CHECK.size, ABOUT_AT))
    if isinstance(about, str):
        raise InvalidFrameBuffer(f"{path} is not a frame buffer: {about}.")
    if found.st_size != about.file_bytes:
        raise InvalidFrameBuffer(f"{path} is not a frame buffer: it has {found.st_size} bytes, not {about.file_bytes}.")
    return about


def remove_dead_frame_buffers(is_alive: Callable[[int, float], bool]) -> list[Path]:
    """Removes frame buffers whose owner (pid and start time) has ended; other files are left alone."""
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


UNFINISHED_SECONDS = 60.0  # creating one never takes so long


def _is_unfinished(path: Path) -> bool:
    """Whether the owner was killed before it wrote the header; the file is then removed here."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return False
        if time.time() - found.st_mtime < UNFINISHED_SECONDS:
            return False
        path.unlink()
    except OSError as error:
        if error.errno != errno.ENOENT:
            logger.warning("The frame buffer %s is unfinished and cannot be removed: %s.", path, error.strerror)
        return False
    return True
