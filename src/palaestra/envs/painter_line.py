"""What is said between the process that trains and the one that draws for it.

Whole messages in order, in a buffer that is bounded by the kernel. Whoever trains never waits: what finds no room is
not said. Nothing that arrives is ever executed.
"""

from __future__ import annotations

import socket
import struct
from enum import IntEnum
from typing import Any, NamedTuple

from palaestra.envs.wire import LineClosed, packed, unpacked

HEAD = struct.Struct("<BI")  # kind, bytes of the header; the tail is the rest
LARGEST_MESSAGE = 32 << 10  # bytes
BUFFER = 128 << 10  # bytes on their way; a small message takes up a thousand


class Word(IntEnum):
    START = 1  # to the painter: what to make, and in which lane to draw
    READY = 2  # from it: made
    FAILED = 3  # from it: could not be done; it ends
    POSE = 4  # to it: draw this


class Said(NamedTuple):
    word: Word
    content: Any  # plain data, bytes and arrays anywhere inside


class TooLong(Exception):
    """A message that will never find room"""


def connected() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    return ours, theirs


class PainterLine:
    """One end of a pair of connected sockets."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(0.0)

    def fileno(self) -> int:
        return self._connection.fileno()

    def say(self, word: Word, content: Any) -> bool:
        """False when there is no room now; LineClosed when the other side is gone."""
        header, tail = packed(content)
        if HEAD.size + len(header) + len(tail) > LARGEST_MESSAGE:
            raise TooLong(f"{len(header) + len(tail)} bytes")
        try:
            self._connection.send(HEAD.pack(word, len(header)) + header + tail)
        except BlockingIOError:
            return False
        except OSError as error:
            raise LineClosed from error
        return True

    def hear(self) -> Said | None:
        """The next message; None when there is none now. LineClosed when the other side is gone."""
        try:
            data = self._connection.recv(LARGEST_MESSAGE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise LineClosed from error
        if not data:
            raise LineClosed
        word, header_size = HEAD.unpack_from(data)
        tail_at = HEAD.size + header_size
        return Said(Word(word), unpacked(data[HEAD.size : tail_at], data[tail_at:]))

    def close(self) -> None:
        self._connection.close()
