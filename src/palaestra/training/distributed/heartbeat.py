"""Every rank learns within seconds that another one is gone, and all learn the same cause.

Rank 0 listens, every other rank keeps one connection to it, apart from those of torch.distributed: it never waits
behind a collective. Both sides send a heartbeat about once a second, from a thread of their own. A connection that ends
without a goodbye, or a rank that is silent for too long (stopped, or its link is cut), is a failure. Rank 0 decides
which failure was the first and sends it to all. Messages are JSON, one in a line.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from palaestra.training.distributed.peer_watch import UNKNOWN_END

if TYPE_CHECKING:
    from collections.abc import Callable

SILENT_SHARE = 0.75  # of the limit: after so much silence a rank counts as lost, and the rest is left to end in order
END_SHARE = 0.9  # of the limit: a rank that has not ended by then is killed
LONGEST_INTERVAL = 1.0  # seconds between two heartbeats
EXPLAIN_SECONDS = 1.0  # after a connection ended: how long to wait for the reason
SETTLE_SECONDS = 0.2  # after a process ended: its own message may still be on its way
DELIVER_SECONDS = 1.0  # for the others to confirm a failure before this process ends
LONGEST_LINE = 1 << 16


@dataclass
class Peer:
    """The other end of one connection."""

    rank: int  # -1 until it has introduced itself
    connection: socket.socket
    last_received_at: float
    received: bytes = b""
    has_left: bool = False  # with a goodbye
    has_confirmed: bool = False  # that it knows the cause


class Heartbeat:
    """Start it with `listen` on rank 0 and with `connect` on the others."""

    def __init__(self, rank: int, token: str, limit_seconds: float) -> None:
        """`token`: known to the ranks of this run only; `limit_seconds`: distributed.peer_timeout_seconds."""
        self.hosts: dict[int, str] = {}  # by rank, where the ranks are on several machines
        self.on_failure: Callable[[], None] = lambda: None  # wakes the thread that waits in a collective
        self.on_deadline: Callable[[str], object] = str  # ends a process that did not wake up
        self.token = token
        self._rank = rank
        self._limit = limit_seconds
        self._interval = min(LONGEST_INTERVAL, limit_seconds / 10)
        self._leader_address = ""
        self._lock = threading.RLock()
        self._peers: dict[int, Peer] = {}
        self._departed: set[int] = set()
        self._ends: dict[int, tuple[float, str]] = {}  # by rank: when to believe that it ended, and how
        self._cause = ""
        self._is_own_failure = False
        self._deadline = float("inf")
        self._has_failed = threading.Event()
        self._is_delivered = threading.Event()
        self._closes_at = float("inf")
        self._sent_at = self._checked_at = monotonic()
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="palaestra-heartbeat", daemon=True)

    def listen(self, address: str) -> int:
        """On rank 0: the port at which the others connect. An empty address: all of this machine's."""
        is_dual = not address and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if is_dual or ":" in address else socket.AF_INET
        listening = socket.create_server((address, 0), family=family, dualstack_ipv6=is_dual)
        listening.settimeout(0)
        self._selector.register(listening, selectors.EVENT_READ, listening)
        self._thread.start()
        return int(listening.getsockname()[1])

    def connect(self, address: str, port: int, timeout_seconds: float) -> None:
        """On the other ranks. Raises OSError when rank 0 cannot be reached."""
        connection = socket.create_connection((address, port), timeout_seconds)
        self._leader_address = f"{address}:{port}"
        leader = Peer(0, connection, monotonic())
        self._send(leader, {"rank": self._rank, "token": self.token})
        connection.settimeout(0)
        self._peers[0] = leader
        self._selector.register(connection, selectors.EVENT_READ, leader)
        self._thread.start()

    def cause(self, within: float = 0.0) -> str:
        """The first failure of the group as a sentence; waits for up to `within` seconds. Empty: all is well."""
        self._has_failed.wait(within)
        return self._cause

    def report_failure(self, message: str) -> None:
        """This rank fails: tell the others, and wait a moment until they know. The first failure stays."""
        with self._lock:
            if self._cause:
                return
            self._is_own_failure = True
            if self._rank == 0:
                self._fail(f"{self._name(0)} failed first: {message}", monotonic())
            elif 0 in self._peers:
                self._send(self._peers[0], {"failed": message[: LONGEST_LINE // 8]})
        if self._peers and threading.current_thread() is not self._thread:
            self._is_delivered.wait(DELIVER_SECONDS)

    def report_end(self, rank: int, how: str) -> None:
        """Another process of this machine ended; the kernel said how. Called by any thread."""
        with self._lock:
            if self._rank == 0 or rank == 0:
                self._note_end(rank, SETTLE_SECONDS, how)
            elif 0 in self._peers:
                self._send(self._peers[0], {"ended": [rank, how]})
        self._wake_up()

    def close(self) -> None:
        """Says goodbye first, so that the end of the connections does not count as a failure."""
        with self._lock:
            self._closes_at = monotonic() + DELIVER_SECONDS
            for peer in self._peers.values():
                self._send(peer, {"leaving": True})
                with suppress(OSError):
                    peer.connection.shutdown(socket.SHUT_WR)
        self._wake_up()
        if self._thread.ident is not None:
            self._thread.join()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        os.close(self._woken)
        os.close(self._wake)

    def _run(self) -> None:
        while True:
            events = self._selector.select(self._interval)
            with self._lock:
                now = monotonic()
                self._forgive_own_sleep(now)
                for key, _ in events:
                    self._handle(key.fileobj, key.data)
                self._send_heartbeats(now)
                self._check(monotonic())
                if now >= self._closes_at or (self._closes_at < float("inf") and not self._peers):
                    return
                is_leaving = self._is_own_failure or self._closes_at < float("inf")
                is_overdue = now >= self._deadline and not is_leaving
                if is_overdue:
                    self._deadline = float("inf")
            if is_overdue:
                self.on_deadline(self._cause)

    def _forgive_own_sleep(self, now: float) -> None:
        """After this process was stopped itself (SIGSTOP, a sleeping machine), silence of the others means nothing."""
        if now - self._checked_at > SILENT_SHARE * self._limit / 2:
            for peer in self._peers.values():
                peer.last_received_at = now
        self._checked_at = now

    def _handle(self, source: Any, data: socket.socket | Peer | None) -> None:
        if data is None:
            os.read(self._woken, 4096)
        elif isinstance(data, Peer):
            self._read(data)
        else:
            self._accept(source)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):  # it has gone again
            connection, _ = listening.accept()
            connection.settimeout(0)
            self._selector.register(connection, selectors.EVENT_READ, Peer(-1, connection, monotonic()))

    def _read(self, peer: Peer) -> None:
        try:
            data = peer.connection.recv(LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(peer)
            return
        peer.last_received_at = monotonic()
        *lines, peer.received = (peer.received + data).split(b"\n")
        for line in lines:
            self._receive(peer, line)
        if len(peer.received) > LONGEST_LINE:
            self._drop(peer)

    def _receive(self, peer: Peer, line: bytes) -> None:
        try:
            message = json.loads(line)
            if peer.rank < 0:
                self._introduce(peer, message)
            elif "failed" in message:
                self._fail(f"{self._name(peer.rank)} failed first: {message['failed']}", monotonic())
            elif "ended" in message:
                rank, how = message["ended"]
                self._note_end(int(rank), SETTLE_SECONDS, str(how))
            elif "cause" in message:
                self._send(peer, {"confirmed": True})
                self._is_delivered.set()
                self._fail(str(message["cause"]), monotonic())
            elif "confirmed" in message:
                peer.has_confirmed = True
                self._check_delivery()
            elif "leaving" in message:
                peer.has_left = True
                self._departed.add(peer.rank)
        except (ValueError, TypeError, KeyError):  # not a rank of this run
            self._drop(peer)

    def _introduce(self, peer: Peer, message: dict[str, Any]) -> None:
        if message["token"] != self.token:
            self._drop(peer)
            return
        peer.rank = int(message["rank"])
        self._peers[peer.rank] = peer
        if self._cause:
            self._send(peer, {"cause": self._cause})

    def _drop(self, peer: Peer) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(peer.connection)
        peer.connection.close()
        if self._peers.get(peer.rank) is peer:
            del self._peers[peer.rank]
            self._check_delivery()
            if not peer.has_left:
                self._note_end(peer.rank, EXPLAIN_SECONDS, UNKNOWN_END)

    def _note_end(self, rank: int, seconds: float, how: str) -> None:
        """To be believed later, unless the rank itself or the kernel says more until then."""
        is_known = rank in self._ends and how == UNKNOWN_END
        if rank not in self._departed and not is_known:
            self._ends[rank] = (monotonic() + seconds, how)

    def _check(self, now: float) -> None:
        if self._cause or self._closes_at < float("inf"):
            return
        for rank, (at, how) in self._ends.items():
            if now >= at:
                self._fail(f"{self._name(rank)} {how}.", now)
                return
        for peer in self._peers.values():
            silence = now - peer.last_received_at
            if silence > SILENT_SHARE * self._limit and not peer.has_left:
                self._fail(self._describe_silence(peer.rank, silence), peer.last_received_at)
                return

    def _describe_silence(self, rank: int, seconds: float) -> str:
        limit = f"(distributed.peer_timeout_seconds={self._limit:g})"
        if self._rank == 0:
            return (
                f"{self._name(rank)} has not answered for {seconds:.0f} s: stopped, or its connection is cut {limit}."
            )
        return f"Lost the connection to {self._name(0)} at {self._leader_address} for {seconds:.0f} s {limit}."

    def _fail(self, cause: str, since: float) -> None:
        if self._cause:
            return
        self._cause = cause
        self._deadline = since + END_SHARE * self._limit
        message = {"cause": cause} if self._rank == 0 else {"failed": cause}
        for peer in self._peers.values():
            self._send(peer, message)
        self._check_delivery()
        self._has_failed.set()
        if not self._is_own_failure:
            self.on_failure()

    def _check_delivery(self) -> None:
        if self._cause and self._rank == 0 and all(peer.has_confirmed for peer in self._peers.values()):
            self._is_delivered.set()

    def _send_heartbeats(self, now: float) -> None:
        if now - self._sent_at >= self._interval:
            self._sent_at = now
            for peer in self._peers.values():
                self._send(peer, {})

    def _send(self, peer: Peer, message: dict[str, Any]) -> None:
        """Small enough for the kernel's buffer; a peer that is gone is noticed when its connection is read."""
        with suppress(OSError):
            peer.connection.send(json.dumps(message).encode() + b"\n")

    def _wake_up(self) -> None:
        with suppress(OSError):  # closed already
            os.write(self._wake, b"!")

    def _name(self, rank: int) -> str:
        return f"Rank {rank} on {self.hosts[rank]}" if rank in self.hosts else f"Rank {rank}"
