"""Sends messages to the parent process as lines of JSON, each line a list of messages.

The training thread only appends to a queue; a background thread writes.
"""

from __future__ import annotations

import collections
import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH_SECONDS = 0.5  # every flush takes the interpreter lock from the script
ATOMIC_WRITE_BYTES = 4096  # PIPE_BUF: writes up to this size by several processes never interleave
MESSAGES_PER_LINE = 32  # usually below ATOMIC_WRITE_BYTES
ENCODE = json.JSONEncoder(separators=(",", ":")).encode


class MessageWriter:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._owner, self._fork_count = os.getpid(), fork_count()
        self._queue: collections.deque[tuple[Any, ...]] = collections.deque()
        self._is_closed = threading.Event()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, before_flush: Callable[[], None]) -> None:
        """Starts the background thread; it calls `before_flush` before every flush."""

        def flush_regularly() -> None:
            while not self._is_closed.wait(FLUSH_SECONDS):
                before_flush()
                self.flush()

        self._thread = threading.Thread(target=flush_regularly, name="palaestra-messages", daemon=True)
        self._thread.start()

    def send(self, *message: Any) -> None:
        """Queues a message; in a forked worker process, which has no background thread, writes it at once."""
        self._queue.append(message)
        if FORKS[0] != self._fork_count:
            self._send([self._queue.pop()])

    def flush(self) -> None:
        with self._writing:
            self._send([self._queue.popleft() for _ in range(len(self._queue))])

    def close(self) -> None:
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.flush()

    def _send(self, messages: list[tuple[Any, ...]]) -> None:
        try:
            for piece in encode_lines(messages):
                self._write(piece)
        except OSError:  # the parent is gone: end the script
            self._is_closed.set()
            os.kill(self._owner, signal.SIGTERM)

    def _write(self, piece: bytes) -> None:
        while piece:
            piece = piece[os.write(self._descriptor, piece) :]


def encode_lines(messages: list[tuple[Any, ...]]) -> list[bytes]:
    """Lines of at most ATOMIC_WRITE_BYTES where possible; encoding many messages in one call takes half the time."""
    batches = (messages[first : first + MESSAGES_PER_LINE] for first in range(0, len(messages), MESSAGES_PER_LINE))
    return [line for batch in batches for line in _lines(batch)]


def _lines(batch: list[tuple[Any, ...]]) -> list[bytes]:
    line = ENCODE(batch).encode() + b"\n"
    if len(line) <= ATOMIC_WRITE_BYTES or len(batch) == 1:
        return [line]
    middle = len(batch) // 2
    return [*_lines(batch[:middle]), *_lines(batch[middle:])]


FORKS = [0]  # number of forks between the first process and this one; read directly on hot paths


def fork_count() -> int:
    """Differs between this process and every process forked from it."""
    return FORKS[0]


def _count_fork() -> None:
    FORKS[0] += 1


os.register_at_fork(after_in_child=_count_fork)
