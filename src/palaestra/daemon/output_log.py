"""A worker's output: a plain file that it appends to, kept short from outside.

The worker writes into the file itself, never into somebody's pipe: whoever keeps the log short may die without the
worker ever being held up or ended by a broken pipe. The file was opened for appending, so after a cut the next write
begins at its new end. See docs/decisions/0010-a-keeper-for-every-worker.md.
Only the standard library: keepers run without anything else.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SLOWEST_SECONDS, FASTEST_SECONDS = 0.1, 0.005
LOOKS_PER_FILL = 4  # how often to look in the time in which the file would fill up at its present pace
PIECE = 1 << 20
TRIES = 3  # to copy the very end of a file that grows faster than it is copied


class OutputLog:
    """At most `limit` bytes, and beside it the piece before, half as long or up to as long again."""

    def __init__(self, path: Path, earlier: Path, limit: int) -> None:
        self._path = path
        self._earlier = earlier
        self._limit = limit
        self._size = self._size_now()
        self._looked_at = time.monotonic()
        self.dropped = (
            0  # bytes that are in neither file, at least; what was written between two system calls is not known
        )

    def open(self) -> int:
        """A descriptor for the worker's stdout and stderr."""
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def tend(self) -> float:
        """Cut the file if it has grown too long; seconds after which to look again."""
        size, now = self._size_now(), time.monotonic()
        grown, took = size - self._size, max(now - self._looked_at, 1e-6)
        if size > self._limit:
            size = self._cut(size)
        self._size, self._looked_at = size, now
        if grown <= 0:
            return SLOWEST_SECONDS
        seconds_to_fill = (self._limit - size) / (grown / took)
        return min(SLOWEST_SECONDS, max(FASTEST_SECONDS, seconds_to_fill / LOOKS_PER_FILL))

    def _size_now(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def _cut(self, size: int) -> int:
        """Its end becomes the earlier piece, with what is written meanwhile as far as there is room for it."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError:
            return size
        try:
            before = self._earlier.stat().st_size if self._earlier.exists() else 0
            for _ in range(TRIES):
                begin = max(0, os.fstat(descriptor).st_size - self._limit // 2)
                copied = self._keep(descriptor, begin)
                lost_after = os.fstat(descriptor).st_size - begin - copied
                if not lost_after:
                    break
            os.ftruncate(descriptor, 0)
            self.dropped += before + begin + lost_after
            if lost_after:
                os.write(descriptor, _tell(lost_after))
            return os.fstat(descriptor).st_size
        except OSError:  # a full disk: the cut, which makes room, was done or will be tried again
            os.ftruncate(descriptor, 0)
            return 0
        finally:
            os.close(descriptor)

    def _keep(self, source: int, begin: int) -> int:
        temporary = self._earlier.with_name(f".tmp-{os.getpid()}-0-{self._earlier.name}")
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            copied = 0
            if begin:
                os.write(target, _tell(begin))
            while copied < self._limit:
                sent = os.sendfile(target, source, begin + copied, min(PIECE, self._limit - copied))
                if sent == 0:
                    break
                copied += sent
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(target)
        temporary.replace(self._earlier)
        return copied


def _tell(count: int) -> bytes:
    return f"[palaestra: {count} bytes of output or more were dropped here]\n".encode()
