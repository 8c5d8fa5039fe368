"""A worker's output: a file that the worker appends to and its monitor truncates.

The worker writes to the file, not to a pipe, so that the death of the monitor neither blocks it nor breaks a pipe. The
file is open for appending: after a truncation the next write starts at the new end. See
docs/decisions/0010-a-monitor-for-every-worker.md. It imports the standard library only, because monitors import it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SLOWEST_SECONDS, FASTEST_SECONDS = 0.1, 0.005
CHECKS_PER_FILL = 4  # checks in the time in which the file would fill up at its current rate
CHUNK_BYTES = 1 << 20
TRIES = 3  # to copy the end of a file that grows faster than it is copied


class OutputLog:
    """Limits the log to `limit` bytes, and stores half as much to as much again of the output before it."""

    def __init__(self, path: Path, earlier: Path, limit: int) -> None:
        self._path = path
        self._earlier = earlier
        self._limit = limit
        self._size = self._size_now()
        self._checked_at = time.monotonic()
        self.dropped = (
            0  # bytes that are in neither file, at least; what was written between two system calls is not known
        )

    def open(self) -> int:
        """Returns a file descriptor for the worker's stdout and stderr."""
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def trim(self) -> float:
        """Truncates the file if it is too long. Returns the seconds until the next check."""
        size, now = self._size_now(), time.monotonic()
        growth, seconds = size - self._size, max(now - self._checked_at, 1e-6)
        if size > self._limit:
            size = self._truncate(size)
        self._size, self._checked_at = size, now
        if growth <= 0:
            return SLOWEST_SECONDS
        seconds_to_fill = (self._limit - size) / (growth / seconds)
        return min(SLOWEST_SECONDS, max(FASTEST_SECONDS, seconds_to_fill / CHECKS_PER_FILL))

    def _size_now(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def _truncate(self, size: int) -> int:
        """Copies the end to the earlier file, with concurrent writes up to its limit, and truncates the file."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError:
            return size
        try:
            before = self._earlier.stat().st_size if self._earlier.exists() else 0
            for _ in range(TRIES):
                begin = max(0, os.fstat(descriptor).st_size - self._limit // 2)
                copied = self._copy_tail(descriptor, begin)
                lost_after = os.fstat(descriptor).st_size - begin - copied
                if not lost_after:
                    break
            os.ftruncate(descriptor, 0)
            self.dropped += before + begin + lost_after
            if lost_after:
                os.write(descriptor, _dropped_notice(lost_after))
            return os.fstat(descriptor).st_size
        except OSError:  # a full disk: truncate without a copy
            os.ftruncate(descriptor, 0)
            return 0
        finally:
            os.close(descriptor)

    def _copy_tail(self, source: int, begin: int) -> int:
        temporary = self._earlier.with_name(f".tmp-{os.getpid()}-0-{self._earlier.name}")
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            copied = 0
            if begin:
                os.write(target, _dropped_notice(begin))
            while copied < self._limit:
                sent = os.sendfile(target, source, begin + copied, min(CHUNK_BYTES, self._limit - copied))
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


def _dropped_notice(count: int) -> bytes:
    return f"[palaestra: {count} bytes of output or more were dropped here]\n".encode()
