"""The few things a checkpoint asks of a file system.

They stand behind a Protocol so that the tests can record them and work out every state a power loss may leave.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    Content = bytes | Iterable[bytes]  # whole, or a piece at a time

CHUNK_BYTES = 1 << 22


class FileSystem(Protocol):
    def write_temporary(self, path: Path, data: Content) -> None:
        """Create `path`, which must not exist, and return only when `data` is on the disk (its name need not be)."""
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
            for piece in [data] if isinstance(data, bytes) else data:
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(descriptor, rest[:CHUNK_BYTES]) :]
            os.fsync(descriptor)
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
