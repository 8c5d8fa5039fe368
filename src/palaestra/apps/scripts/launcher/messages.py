"""Lines of JSON, each a list of messages, to whoever started us.

Training only appends to a queue; a thread of ours does the writing.
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

FLUSH_SECONDS = 0.5  # each time, the thread takes the interpreter from the script, and our side has work to do
WHOLE_BYTES = 4096  # a pipe takes this much in one piece, so lines of several processes never mix
PACK = 32  # messages that usually fit into that
ENCODE = json.JSONEncoder(separators=(",", ":")).encode


class MessageWriter:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._owner, self._generation = os.getpid(), generation()
        self._queue: collections.deque[tuple[Any, ...]] = collections.deque()
        self._is_over = threading.Event()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, before_flush: Callable[[], None]) -> None:
        """`before_flush` may say something about how things stand."""

        def work() -> None:
            while not self._is_over.wait(FLUSH_SECONDS):
                before_flush()
                self.flush()

        self._thread = threading.Thread(target=work, name="palaestra-wire", daemon=True)
        self._thread.start()

    def say(self, *message: Any) -> None:
        """From the training thread: an append. From a forked environment, which has no thread of ours: a write."""
        self._queue.append(message)
        if FORKS[0] != self._generation:
            self._send([self._queue.pop()])

    def flush(self) -> None:
        with self._writing:
            self._send([self._queue.popleft() for _ in range(len(self._queue))])

    def close(self) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.flush()

    def _send(self, messages: list[tuple[Any, ...]]) -> None:
        try:
            for piece in pieces(messages):
                self._write(piece)
        except OSError:  # nobody listens any more, and a script that nobody looks after must end
            self._is_over.set()
            os.kill(self._owner, signal.SIGTERM)

    def _write(self, piece: bytes) -> None:
        while piece:
            piece = piece[os.write(self._descriptor, piece) :]


def pieces(messages: list[tuple[Any, ...]]) -> list[bytes]:
    """Lines that can be written in one piece, each a list of messages: one call encodes many in half the time."""
    packs = (messages[first : first + PACK] for first in range(0, len(messages), PACK))
    return [line for pack in packs for line in _lines(pack)]


def _lines(pack: list[tuple[Any, ...]]) -> list[bytes]:
    line = ENCODE(pack).encode() + b"\n"
    if len(line) <= WHOLE_BYTES or len(pack) == 1:
        return [line]
    middle = len(pack) // 2
    return [*_lines(pack[:middle]), *_lines(pack[middle:])]


FORKS = [0]  # read where a call would cost too much


def generation() -> int:
    """Another number in every process that is forked from this one, and in its own."""
    return FORKS[0]


def _count() -> None:
    FORKS[0] += 1


os.register_at_fork(after_in_child=_count)
