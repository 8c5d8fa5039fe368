"""Messages between the training process and its worker processes.

A message is a kind, a JSON header, and a tail with the bytes of arrays. A message that only wakes the other side has
neither. Nothing that arrives is executed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from palaestra.rendering.messages import pack, unpack

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

HEADER = struct.Struct("<BIQ")  # kind, bytes of the header, bytes of the tail
SLICE_SECONDS = 1.0
NOWHERE = -1  # mark of a worker between two steps


class Kind(IntEnum):
    START = 1  # to a worker: the environments to make
    LAYOUT = 2  # fields of the shared memory
    RESET = 3
    STEP = 4
    CAPTURE = 5
    RESTORE = 6
    RENDER = 7
    CLOSE = 8
    DONE = 9  # from a worker: done
    FAILED = 10
    TASK = 11  # from a worker: request for the next task
    OPTIONS = 12  # to a worker: the next task


@dataclass(frozen=True)
class Message:
    kind: Kind
    content: Any = None  # plain data, bytes and arrays anywhere inside


class LineClosed(Exception):
    """The other end was closed."""


class ReplyTimeout(Exception):
    """The other end did not reply within the timeout."""


class Line:
    """One end of a pair of connected sockets. Without a timeout it waits as long as the other end is open.

    Waiting is counted in slices, so that the suspension of the machine or the process counts for one second at most.
    """

    def __init__(self, connection: socket.socket, timeout: float | None = None) -> None:
        """`timeout`: seconds without a reply."""
        self._connection = connection
        self._timeout = timeout
        self._slice = None if timeout is None else min(timeout, SLICE_SECONDS)
        connection.settimeout(self._slice)

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, kind: Kind, content: Any = None) -> None:
        header, tail = pack(content)
        rest = memoryview(HEADER.pack(kind, len(header), len(tail)) + header + tail)
        while rest:
            rest = rest[self._with_timeout(self._connection.send, rest) :]

    def receive(self) -> Message:
        kind, header_size, tail_size = HEADER.unpack(self._read(HEADER.size))
        if not header_size:
            return Message(Kind(kind))
        header = self._read(header_size)
        return Message(Kind(kind), unpack(header, self._read(tail_size)))

    def close(self) -> None:
        self._connection.close()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            found = self._with_timeout(self._connection.recv, size - len(parts))
            if not found:
                raise LineClosed
            parts += found
        return bytes(parts)

    def _with_timeout(self, call: Callable[[Any], Any], argument: Any) -> Any:
        waited = 0.0
        while True:
            try:
                return call(argument)
            except TimeoutError:
                assert self._timeout is not None
                assert self._slice is not None
                waited += self._slice
                if waited >= self._timeout:
                    raise ReplyTimeout from None
            except OSError as error:
                raise LineClosed from error
