"""The script's own process: started with the launcher injected by its path, and a pipe to hear from it."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.apps.scripts.order import LaunchOrder

BEGIN = Path(__file__).parent / "launcher" / "begin.py"
READ_BYTES = 1 << 16
KILL_SECONDS = 20.0  # after our own end was asked for; the daemon's grace is longer


class Child:
    """Its messages as they come. A line that its death tore is passed over."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._rest = b""
        self._is_open = True
        self._selector = selectors.DefaultSelector()
        self._selector.register(descriptor, selectors.EVENT_READ)

    def messages(self, seconds: float) -> list[list[Any]]:
        """Those that come within that time; at once when there are some."""
        if not self._is_open:
            return []
        if not self._selector.select(seconds):
            return []
        data = os.read(self._descriptor, READ_BYTES)
        if not data:
            self._is_open = False
            self._selector.unregister(self._descriptor)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [message for line in lines for message in _decode(line)]

    def drain(self) -> list[list[Any]]:
        """What still lies in the pipe; its environments' processes may hold it open for longer."""
        found: list[list[Any]] = []
        while more := self.messages(0.0):
            found += more
        return found

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        self._selector.close()


@contextmanager
def started(order: LaunchOrder) -> Iterator[Child]:
    """In a session of its own, so that Ctrl-C reaches it once and by us; it does not outlive the block."""
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [order.python, str(BEGIN), json.dumps({**order.for_launcher(), "descriptor": writing})],
            cwd=order.run_directory,
            env={**os.environ, **order.environment()},
            pass_fds=(writing,),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(writing)
    child = Child(process, reading)
    try:
        yield child
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        child.close()
        os.close(reading)


def _decode(line: bytes) -> list[list[Any]]:
    try:
        messages = json.loads(line)
    except ValueError:
        return []
    heard = messages if isinstance(messages, list) else []
    return [one for one in heard if isinstance(one, list) and one and isinstance(one[0], str)]
