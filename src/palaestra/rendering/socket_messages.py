"""Whole messages between a process that steps environments and its render process.

The kernel keeps them in order in a bounded buffer. The sender never waits: what finds no room is not sent. Several
processes may send through one end, which a fork hands down.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import Any

from .messages import pack, unpack

HEAD = struct.Struct("<I")  # bytes of the header; the tail is the rest
LARGEST_MESSAGE = 192 << 10  # bytes
BUFFER_BYTES = 512 << 10  # on their way, as far as the system allows


class PeerClosed(Exception):
    """The other side is gone."""


class MessageTooLong(Exception):
    """It will never find room."""


def socket_pair() -> tuple[MessageSocket, MessageSocket]:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    return MessageSocket(ends[0]), MessageSocket(ends[1])


class MessageSocket:
    """One end. Neither sending nor receiving waits."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(0.0)

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, content: Any) -> bool:
        """False when there is no room now."""
        header, tail = pack(content)
        size = HEAD.size + len(header) + len(tail)
        if size > LARGEST_MESSAGE:
            raise MessageTooLong(f"{size} bytes")
        try:
            self._connection.send(HEAD.pack(len(header)) + header + tail)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise MessageTooLong(f"{size} bytes") from error
            raise PeerClosed from error
        return True

    def receive(self) -> Any:
        """The next message; None when there is none now."""
        try:
            data = self._connection.recv(LARGEST_MESSAGE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise PeerClosed from error
        if not data:
            raise PeerClosed
        end = HEAD.size + HEAD.unpack_from(data)[0]
        return unpack(data[HEAD.size : end], data[end:])

    def close(self) -> None:
        self._connection.close()
