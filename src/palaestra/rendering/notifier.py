"""How the worker wakes the server when there is a new frame, so that nobody has to poll.

A datagram socket without a file: nothing stays behind when its server is killed. Who rings is told by the kernel, so
that only processes of the same user are heard; a ring that cannot be delivered is lost, and that is all.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
from collections import Counter

RING = struct.Struct("<QI")  # ticket, slot
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid, as the kernel gives them
MOST_AT_ONCE = 4096  # rings heard in one go; the rest in the next


def _address(number: int) -> bytes:
    return b"\x00palaestra-bell-%016x" % number


class NotificationReceiver:
    """The server's end. `fileno` is for a selector; whenever it is readable, `heard` says what was rung."""

    def __init__(self) -> None:
        self.number = secrets.randbits(64)
        self.ignored: Counter[str] = Counter()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(_address(self.number))

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> set[tuple[int, int]]:
        """Ticket and slot of all rings since the last time"""
        rings: set[tuple[int, int]] = set()
        for _ in range(MOST_AT_ONCE):
            try:
                data, extra, _, _ = self._socket.recvmsg(RING.size + 1, socket.CMSG_SPACE(CREDENTIALS.size))
            except BlockingIOError:
                break
            if not _is_ours(extra):
                self.ignored["stranger"] += 1
            elif len(data) != RING.size:
                self.ignored["size"] += 1
            else:
                rings.add(RING.unpack(data))
        return rings

    def close(self) -> None:
        self._socket.close()


def _is_ours(extra: list[tuple[int, int, bytes]]) -> bool:
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) >= CREDENTIALS.size:
            return bool(CREDENTIALS.unpack_from(data)[1] == os.geteuid())
    return False


class NotificationSender:
    """The worker's end. It never waits and never fails."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)

    def notify(self, notifier: int, ticket: int, slot: int) -> bool:
        """False when nobody can hear it now: the server is gone, or has not yet heard the last ones."""
        try:
            self._socket.sendto(RING.pack(ticket, slot), _address(notifier))
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()
