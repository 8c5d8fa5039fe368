"""A machine's part in a cluster as one process that is started, watched, and ended with everything it started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palaestra.cluster.folders import private_folder
from palaestra.cluster.installed import QUIET, demand_ray
from palaestra.cluster.probe import probe
from palaestra.cluster.token import Token, access, find_token, keep_fresh_token
from palaestra.contracts.errors import RunFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from palaestra.cluster.node import NodeOrder

START_SECONDS = 90.0
LEAVE_SECONDS = 20.0
LOOK_SECONDS = 0.2
STARTED = "Ray runtime started."
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TAIL_LINES = 6


class NodeProcess:
    """`ray start --block` in a session of its own: Ctrl-C in a terminal reaches it once, through us."""

    def __init__(self, order: NodeOrder, variables: dict[str, str], folder: Path) -> None:
        self._log = folder.parent / "ray-start.log"
        words = [sys.executable, "-m", "palaestra.cluster.node", *order.words(folder)]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,  # its end tells of ours, however we go
                stdout=output,
                stderr=output,
                env={**os.environ, **QUIET, **variables, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"},
                start_new_session=True,
            )

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while STARTED not in self._said():
            if self._process.poll() is not None:
                raise RunFailed(f"Ray did not start: {self._tail()}", "Is another Ray at work on this machine?")
            if time.monotonic() > deadline:
                raise RunFailed(f"Ray did not start within {START_SECONDS:.0f} s: {self._tail()}")
            time.sleep(LOOK_SECONDS)

    def wait(self) -> None:
        """Until it ends by itself, which it should not."""
        code = self._process.wait()
        raise RunFailed(
            f"Ray on this machine ended by itself, with exit code {code}: {self._tail()}", "Is the cluster's head gone?"
        )

    def end(self) -> None:
        """What `ray start` started, it ends; were it too slow, its own watcher does so once it is gone."""
        self._process.terminate()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _tail(self) -> str:
        return " / ".join(line.strip() for line in self._said().splitlines()[-TAIL_LINES:] if line.strip())


class Left(BaseException):
    """A signal that asks us to leave the cluster."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextmanager
def node(order: NodeOrder) -> Iterator[NodeProcess]:
    """A machine's part for the block's duration; it is up when the block begins."""
    variables = admit(order)
    with _leaving(), private_folder() as folder:
        process = NodeProcess(order, variables, folder)
        try:
            process.wait_until_up()
            yield process
        finally:
            process.end()


def admit(order: NodeOrder) -> dict[str, str]:
    """The variables of Ray for this part, or a refusal. A head always has a token; if there is none, it makes one."""
    demand_ray()
    if not order.is_head:
        variables = access(order.address, os.environ)
        probe(order.address, variables, joins=True)
        return variables
    _demand_free(order)
    if os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        raise UsageError(
            f"RAY_AUTH_MODE={os.environ['RAY_AUTH_MODE']}: anybody could run code in this cluster.",
            "Unset it: a cluster that is started here always has a token.",
        )
    head_token()
    return {"RAY_AUTH_MODE": "token"}


def head_token() -> Token:
    return find_token(os.environ) or keep_fresh_token()


def _demand_free(order: NodeOrder) -> None:
    """Ray would say so only after half a minute, and not clearly."""
    try:
        with socket.create_server((order.address.host, order.address.port)):
            return
    except OSError as error:
        raise UsageError(
            f"Nobody can listen at {order.address}: {error.strerror or error}.",
            "Choose another with --port, or an address of this machine with --host.",
        ) from error


@contextmanager
def _leaving() -> Iterator[None]:
    def leave(number: int, _frame: FrameType | None) -> None:
        for each in ENDING:  # whoever asks again while we leave is not heard: leaving is short and must be whole
            signal.signal(each, signal.SIG_IGN)
        raise Left(number)

    before = {number: signal.signal(number, leave) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
