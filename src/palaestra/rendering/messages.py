"""Messages between processes: JSON, followed by the bytes of arrays. Nothing that arrives is executed.

`MessageSocket` carries whole messages between a process that steps environments and its render process. The kernel
keeps them in order in a bounded buffer. Sending never waits: a message that does not fit is not sent. Several processes
may send through one end that was inherited by a fork.
"""

from __future__ import annotations

import errno
import json
import math
import socket
import struct
from typing import Any

import numpy as np

BYTES, ARRAY = "$bytes", "$array"  # keys of a header that point into the tail


def pack(content: Any) -> tuple[bytes, bytes]:
    """A header and a tail. Raises TypeError for anything but JSON types, bytes, NumPy arrays and scalars."""
    if content is None:
        return b"", b""
    tail: list[bytes] = []

    def add_to_tail(value: Any) -> dict[str, Any]:
        if isinstance(value, bytes):
            tail.append(value)
            return {BYTES: len(value)}
        if isinstance(value, np.ndarray):
            tail.append(value.tobytes())
            return {ARRAY: value.dtype.str, "shape": value.shape}
        if isinstance(value, np.generic):
            return {**add_to_tail(np.asarray(value)), "scalar": True}
        raise TypeError(f"{type(value).__name__} is not a JSON type, bytes, or a NumPy array")

    return json.dumps(content, default=add_to_tail).encode(), b"".join(tail)


def unpack(header: bytes, tail: bytes) -> Any:
    if not tail and b'"$' not in header:
        return json.loads(header)
    offset = 0

    def next_bytes(size: int) -> bytes:
        nonlocal offset
        offset += size
        return tail[offset - size : offset]

    def from_tail(found: dict[str, Any]) -> Any:
        if ARRAY in found:
            kind = np.dtype(found[ARRAY])
            shape = found["shape"]
            array = np.frombuffer(next_bytes(kind.itemsize * math.prod(shape)), kind).reshape(shape).copy()
            return array[()] if "scalar" in found else array
        if BYTES in found:
            return next_bytes(found[BYTES])
        return found

    return json.loads(header, object_hook=from_tail)


HEADER_SIZE = struct.Struct("<I")  # bytes of the header; the tail is the rest
LARGEST_MESSAGE = 192 << 10  # bytes
BUFFER_BYTES = 512 << 10  # in flight, as far as the system allows


class PeerClosed(Exception):
    """The other end was closed."""


class MessageTooLong(Exception):
    """The message is larger than the socket's limit."""


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
        """Returns False if there is no room now."""
        header, tail = pack(content)
        size = HEADER_SIZE.size + len(header) + len(tail)
        if size > LARGEST_MESSAGE:
            raise MessageTooLong(f"{size} bytes")
        try:
            self._connection.send(HEADER_SIZE.pack(len(header)) + header + tail)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise MessageTooLong(f"{size} bytes") from error
            raise PeerClosed from error
        return True

    def receive(self) -> Any:
        """The next message, or None."""
        try:
            data = self._connection.recv(LARGEST_MESSAGE)
        except BlockingIOError:
            return None
        except OSError as error:
            raise PeerClosed from error
        if not data:
            raise PeerClosed
        end = HEADER_SIZE.size + HEADER_SIZE.unpack_from(data)[0]
        return unpack(data[HEADER_SIZE.size : end], data[end:])

    def close(self) -> None:
        self._connection.close()
