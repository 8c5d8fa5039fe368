"""Notifications of new frames from workers to the server, so that the server need not poll.

An abstract datagram socket: no file is left behind when the server is killed. The kernel names the sender, so that only
processes of the same user are accepted. A notification that cannot be delivered is lost.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
from collections import Counter

NOTIFICATION = struct.Struct("<QI")  # ticket, slot
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid, from the kernel
MAX_BATCH = 4096  # notifications per call of `receive`


def _address(number: int) -> bytes:
    return b"\x00palaestra-notifier-%016x" % number


class NotificationReceiver:
    """The server's end. `fileno` is for a selector; call `receive` when it is readable."""

    def __init__(self) -> None:
        self.number = secrets.randbits(64)
        self.ignored: Counter[str] = Counter()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(_address(self.number))

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> set[tuple[int, int]]:
        """Ticket and slot of all notifications since the last call."""
        received: set[tuple[int, int]] = set()
        for _ in range(MAX_BATCH):
            try:
                data, extra, _, _ = self._socket.recvmsg(NOTIFICATION.size + 1, socket.CMSG_SPACE(CREDENTIALS.size))
            except BlockingIOError:
                break
            if not _is_from_this_user(extra):
                self.ignored["other user"] += 1
            elif len(data) != NOTIFICATION.size:
                self.ignored["size"] += 1
            else:
                received.add(NOTIFICATION.unpack(data))
        return received

    def close(self) -> None:
        self._socket.close()


def _is_from_this_user(extra: list[tuple[int, int, bytes]]) -> bool:
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) >= CREDENTIALS.size:
            return bool(CREDENTIALS.unpack_from(data)[1] == os.geteuid())
    return False


class NotificationSender:
    """The worker's end. Sending never waits and never raises."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)

    def notify(self, notifier: int, ticket: int, slot: int) -> bool:
        """Returns False if it was not delivered: the server has ended, or its queue is full."""
        try:
            self._socket.sendto(NOTIFICATION.pack(ticket, slot), _address(notifier))
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()
