"""Opening what claims to be a file: a pipe must not make us wait, a device must not feed us for ever."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
