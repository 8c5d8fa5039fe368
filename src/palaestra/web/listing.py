"""Files of a run by name. A name is looked up in what the directory holds; no path is ever made of what was asked."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from palaestra.core.errors import NotFound, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_FILES = 10_000  # of one directory; beyond that it is no place for people to look through


class StoredFile(TypedDict):
    name: str
    bytes: int
    created_at: float


@dataclass(frozen=True)
class ListedFile:
    name: str
    bytes: int
    changed_at: float  # seconds since 1970

    def plain(self) -> StoredFile:
        return {"name": self.name, "bytes": self.bytes, "created_at": self.changed_at}


@dataclass(frozen=True)
class OpenedFile:
    """Whoever gets it closes the descriptor."""

    name: str
    descriptor: int
    about: os.stat_result

    @property
    def bytes(self) -> int:
        return self.about.st_size


def list_files(directory: Path, ending: str = "") -> list[ListedFile]:
    """Regular files, newest first; links, hidden files and whatever else lies there are passed over."""
    found = []
    with _opened(directory) as descriptor:
        if descriptor is not None:
            for name in _names(descriptor, ending):
                with contextlib.suppress(FileNotFoundError):
                    about = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        found.append(ListedFile(name, about.st_size, about.st_mtime))
    return sorted(found, key=lambda file: (-file.changed_at, file.name))


def open_listed(directory: Path, wanted: str, ending: str = "") -> OpenedFile:
    """NotFound unless the directory holds a regular file of exactly that name."""
    with _opened(directory) as descriptor:
        names = [] if descriptor is None else _names(descriptor, ending)
        name = next((name for name in names if name == wanted), None)
        if descriptor is not None and name is not None:
            opened = _open_regular(name, descriptor)
            if opened is not None:
                return opened
    raise NotFound(f"There is no file {wanted[:200]!r} there.", did_you_mean(wanted[:200], names))


def _open_regular(name: str, directory: int) -> OpenedFile | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError:  # a link, or removed since it was listed
        return None
    about = os.fstat(descriptor)
    if stat.S_ISREG(about.st_mode):
        return OpenedFile(name, descriptor, about)
    os.close(descriptor)
    return None


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int | None]:
    """None when there is no such directory, or a link in its place."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _names(descriptor: int, ending: str) -> list[str]:
    names = [name for name in os.listdir(descriptor) if name.endswith(ending) and not name.startswith(".")]
    return sorted(name for name in names if name.isprintable())[:MOST_FILES]
