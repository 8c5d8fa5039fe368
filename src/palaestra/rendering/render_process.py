"""The process that renders for one that steps environments; `start.py` starts it.

It receives states and renders the newest of each environment. It ends with its parent, and leaves nothing behind: an
unfinished frame is never visible.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import select
import signal
import socket
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from .env_copy import CopyPool
from .frame_buffer import FrameBufferError, FrameBufferFile
from .frame_format import Numbers
from .frame_writer import FrameWriter
from .images import fit
from .messages import MessageSocket, PeerClosed

# On a contended core the scheduler gives a tenth to a starting process (for a second or two), and 1.5 % to a rendering
# one.
STARTING_NICENESS, RENDERING_NICENESS = 10, 19
PARENT_CHECK_SECONDS = 1.0
FEW_CORES, SHARE_OF_FEW_CORES, SHARE_OF_MANY_CORES = 2, 0.06, 0.5  # of one core, for rendering
LONGEST_REST = 0.25  # seconds after a frame; the first takes long, and all tiles should be there soon
PR_SET_PDEATHSIG = 1


class ParentGone(Exception):
    """The parent process has ended."""


class States:
    """The newest state of each slot, in order of arrival."""

    def __init__(self, connection: MessageSocket, parent: int) -> None:
        self._connection = connection
        self._parent = parent
        self._waiting: dict[int, dict[str, Any]] = {}  # the last message of each slot
        self._pool = CopyPool()
        self._session: int | None = None

    def next(self) -> tuple[int, dict[str, Any]]:
        """The next slot and its message; waits for one."""
        self._receive_all()
        while not self._waiting:
            select.select([self._connection], [], [], PARENT_CHECK_SECONDS)
            self._check_parent()
            self._receive_all()
        slot = next(iter(self._waiting))
        return slot, self._waiting.pop(slot)

    def render(self, slot: int) -> Any:
        return self._pool.render(slot)

    def _check_parent(self) -> None:
        if self._parent and os.getppid() != self._parent:
            raise ParentGone

    def _receive_all(self) -> None:
        while (message := self._connection.receive()) is not None:
            if "session" in message:
                self._session = message["session"]
            elif message["of"] == self._session:  # not meant for a previous process
                slot = message["slot"]
                self._pool.update(slot, message["state"])
                if self._pool.knows(slot):
                    self._waiting[slot] = message


def render_all(states: States, writer: FrameWriter, largest_side: int) -> None:
    """Renders until the parent ends, on a share of a core only, because the training process shares its caches."""
    share = rendering_share(usable_cores())
    began = time.process_time()
    while True:
        time.sleep(rest_seconds(time.process_time() - began, share))
        slot, message = states.next()
        began = time.process_time()
        demand = writer.demand(time.monotonic())
        if demand is None:
            continue  # the viewer has left
        pixels = fit(states.render(slot), demand.largest_side, largest_side)
        writer.write(slot, pixels, Numbers(*message["numbers"]), message["at"])
        writer.notify(demand, slot)


def rendering_share(cores: int) -> float:
    """The share of one core to use on a machine with `cores` cores."""
    return SHARE_OF_FEW_CORES if cores <= FEW_CORES else SHARE_OF_MANY_CORES


def rest_seconds(busy_seconds: float, share: float) -> float:
    """How long to sleep after a frame that took `busy_seconds` of CPU time, so that frames use `share` of a core."""
    return min(busy_seconds * (1 / share - 1), LONGEST_REST)


def serve(connection: MessageSocket, parent: int, path: Path) -> None:
    with closing(FrameBufferFile(path)) as file, closing(FrameWriter(file.descriptor, file.about)) as writer:
        with suppress(ImportError):  # environments that need it raise later
            importlib.import_module("gymnasium")
        connection.send({"ready": True})
        os.nice(RENDERING_NICENESS - STARTING_NICENESS)
        render_all(States(connection, parent), writer, largest_side_of(writer))


def usable_cores() -> int:
    """The number of cores this process may use; only Linux limits it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def largest_side_of(writer: FrameWriter) -> int:
    """The side in pixels of the largest square image that fits."""
    return int((writer.about.capacity / 3) ** 0.5)


def main(arguments: list[str]) -> int:
    descriptor, parent = int(arguments[0]), int(arguments[1])
    die_with_parent(parent)
    for number in (signal.SIGINT, signal.SIGTERM):  # both are for the parent: it ends, and this process with it
        signal.signal(number, signal.SIG_IGN)
    os.nice(STARTING_NICENESS)
    with closing(MessageSocket(socket.socket(fileno=descriptor))) as connection:
        try:
            serve(connection, parent, Path(arguments[2]))
        except (PeerClosed, ParentGone, FrameBufferError):
            return 0
        except Exception as error:  # rendering may raise anything; the parent then renders by itself
            reason = f"{type(error).__name__}: {error}".strip().rstrip(".")
            with suppress(PeerClosed):
                connection.send({"failed": reason[:1000]})
            raise SystemExit(1) from error
    return 0


def die_with_parent(parent: int) -> None:
    """`parent` 0: the thread that started this process may end before its process; only the parent's id is reliable."""
    if parent and sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(0)
