"""What is said between the process that trains and those that step environments for it.

A message is a kind, a header of plain data as JSON, and a tail with the bytes that the header speaks of. A message
that only wakes has neither: one write, one read. Nothing that arrives is ever executed.
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

HEAD = struct.Struct("<BIQ")  # kind, bytes of the header, bytes of the tail
SLICE_SECONDS = 1.0


class Kind(IntEnum):
    START = 1  # to a worker: what to make
    LAYOUT = 2  # where everything lies in the shared memory
    RESET = 3
    STEP = 4
    CAPTURE = 5
    RESTORE = 6
    DRAW = 7
    CLOSE = 8
    DONE = 9  # from a worker: as asked
    FAILED = 10  # could not be done
    TASK = 11  # which task is to be played next?
    OPTIONS = 12  # to a worker: this one


@dataclass(frozen=True)
class Message:
    kind: Kind
    content: Any = None  # plain data, bytes and arrays anywhere inside


class LineClosed(Exception):
    """The other side is gone."""


class NoAnswer(Exception):
    """The other side is there and says nothing."""


class Line:
    """One end of a pair of connected sockets. Without a timeout it waits for as long as the other side lives.

    Waiting is counted in slices, so that a machine that slept, or a job that was stopped for an hour and went on,
    counts for one second at most.
    """

    def __init__(self, connection: socket.socket, timeout: float | None = None) -> None:
        """`timeout`: seconds without a sign of life."""
        self._connection = connection
        self._timeout = timeout
        self._slice = None if timeout is None else min(timeout, SLICE_SECONDS)
        connection.settimeout(self._slice)

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, kind: Kind, content: Any = None) -> None:
        header, tail = pack(content)
        rest = memoryview(HEAD.pack(kind, len(header), len(tail)) + header + tail)
        while rest:
            rest = rest[self._patiently(self._connection.send, rest) :]

    def receive(self) -> Message:
        kind, header_size, tail_size = HEAD.unpack(self._read(HEAD.size))
        if not header_size:
            return Message(Kind(kind))
        header = self._read(header_size)
        return Message(Kind(kind), unpack(header, self._read(tail_size)))

    def close(self) -> None:
        self._connection.close()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            found = self._patiently(self._connection.recv, size - len(parts))
            if not found:
                raise LineClosed
            parts += found
        return bytes(parts)

    def _patiently(self, call: Callable[[Any], Any], argument: Any) -> Any:
        waited = 0.0
        while True:
            try:
                return call(argument)
            except TimeoutError:
                assert self._timeout is not None
                assert self._slice is not None
                waited += self._slice
                if waited >= self._timeout:
                    raise NoAnswer from None
            except OSError as error:
                raise LineClosed from error
