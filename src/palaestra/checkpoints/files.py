"""How the files of one epoch are called, and how a name gives its epoch back.

Four digits at least, so that a listing reads well; order is always by the integer, never by the text.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import psutil

from palaestra.core.errors import DamagedFile, PalaestraError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Content = bytes | Iterable[bytes | memoryview]  # whole, or a piece at a time

_SIDECAR = re.compile(r"model_(\d{4,18})\.yaml", re.ASCII)
_DATA = re.compile(r"(?:model_(\d{4,18})\.safetensors|trainer_state_(\d{4,18})\.pt)", re.ASCII)
_SEGMENT = re.compile(r"rank(\d{1,5})_(\d{12,18})_[0-9a-f]{8}\.rows", re.ASCII)
_SEGMENT_ENTRY = re.compile(r"(\d{1,18}) (\d{1,18}) (\d{1,18}) ([0-9a-f]{64})", re.ASCII)
_PROC_IS_THERE = Path("/proc/self/stat").exists()
_TEMPORARY = re.compile(r"\.tmp-(\d{1,10})-(\d{1,16})-.+", re.ASCII)


def model_name(epoch: int) -> str:
    return f"model_{epoch:04d}.safetensors"


def sidecar_name(epoch: int) -> str:
    return f"model_{epoch:04d}.yaml"


def trainer_state_name(epoch: int) -> str:
    return f"trainer_state_{epoch:04d}.pt"


def epoch_of_sidecar(name: str) -> int | None:
    """None for every name that `sidecar_name` would not have given."""
    match = _SIDECAR.fullmatch(name)
    if match is None:
        return None
    epoch = int(match[1])
    return epoch if sidecar_name(epoch) == name else None


def epoch_of_data(name: str) -> int | None:
    """The epoch that weights or a trainer state belong to; None for every other name."""
    match = _DATA.fullmatch(name)
    if match is None:
        return None
    epoch = int(match[1] or match[2])
    return epoch if name in {model_name(epoch), trainer_state_name(epoch)} else None


def segment_name(rank: int, first_row: int) -> str:
    """A new one, never given before: of rows of a replay buffer, see `replay_segments`."""
    return f"rank{rank}_{first_row:012d}_{os.urandom(4).hex()}.rows"


def is_segment_name(name: str) -> bool:
    return _SEGMENT.fullmatch(name) is not None


def rank_of_segment(name: str) -> int:
    match = _SEGMENT.fullmatch(name)
    assert match is not None, name
    return int(match[1])


def segment_entry(text: str) -> tuple[int, int, int, str] | None:
    """First row, the row after the last, bytes and sha256 of a segment, as a sidecar names it; None: it is no such."""
    match = _SEGMENT_ENTRY.fullmatch(text)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]), match[4])


def temporary_name(name: str) -> str:
    """A name that says whose it is: pid and start time together name one process, ever."""
    return f".tmp-{os.getpid()}-{_own_process_start(os.getpid())}-{name}"


def owner_is_dead(name: str) -> bool:
    """Whether this is a temporary file whose writer is no more (another process with its pid is not its writer)."""
    match = _TEMPORARY.fullmatch(name)
    return match is not None and _process_start(int(match[1])) != int(match[2])


def is_temporary(name: str) -> bool:
    return _TEMPORARY.fullmatch(name) is not None


@cache
def _own_process_start(pid: int) -> int | None:
    """Asked once a process; a forked child has another pid and so asks anew."""
    return _process_start(pid)


def _process_start(pid: int) -> int | None:
    """Start time of the process on a monotonic clock; None if the process does not exist."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return None if _PROC_IS_THERE else _process_start_without_proc(pid)
    return int(after_name.split()[19])  # starttime, the 22nd field of proc(5)


def _process_start_without_proc(pid: int) -> int | None:
    return int(psutil.Process(pid).create_time()) if psutil.pid_exists(pid) else None


CHUNK_BYTES = 1 << 22


class FileSystem(Protocol):
    def write_temporary(self, path: Path, data: Content) -> None:
        """Create `path`, which must not exist, and return only when `data` is on the disk (its name need not be)."""
        ...

    def append(self, path: Path, size: int, data: Content) -> None:
        """Add `data` after the first `size` bytes of `path`, which go if there are more; return when it is on the disk.

        `FileNotFoundError` when the file is not there or shorter.
        """
        ...

    def rename(self, source: Path, target: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def fsync_directory(self, directory: Path) -> None:
        """Return only when every name made, changed or removed in `directory` before is on the disk."""
        ...


class RealFileSystem:
    def write_temporary(self, path: Path, data: Content) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            _write(descriptor, data)
        finally:
            os.close(descriptor)

    def append(self, path: Path, size: int, data: Content) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            there = os.fstat(descriptor).st_size
            if there < size:
                raise FileNotFoundError(errno.ENOENT, f"{there} of {size} bytes are left", str(path))
            os.ftruncate(descriptor, size)
            os.lseek(descriptor, size, os.SEEK_SET)
            _write(descriptor, data)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def fsync_directory(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(descriptor: int, data: Content) -> None:
    for piece in [data] if isinstance(data, bytes) else data:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(descriptor, rest[:CHUNK_BYTES]) :]
    os.fsync(descriptor)


@contextmanager
def open_regular_file(path: Path, max_bytes: int, *, follow_links: bool) -> Iterator[tuple[BinaryIO, int]]:
    """The stream and its size in bytes; `FileNotFoundError` when it is not there, `DamagedFile` for other trouble."""
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedFile(f"{path} cannot be opened: {error.strerror}.") from error
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise DamagedFile(f"{path} is not a regular file.")
        if about.st_size > max_bytes:
            raise DamagedFile(f"{path} has {about.st_size} bytes; at most {max_bytes} are read.")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream, about.st_size
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror}.") from error
    finally:
        os.close(descriptor)


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """All of a file of ours; a link in its place is refused."""
    with open_regular_file(path, max_bytes, follow_links=False) as (stream, _):
        return stream.read(max_bytes + 1)


class SaveFailed(PalaestraError):
    """The disk said no. What was committed before is untouched and nothing half-written is left; try again later."""
