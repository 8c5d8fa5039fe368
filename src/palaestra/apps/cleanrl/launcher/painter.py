"""The process that draws for the script, seen from there: how it is started, told poses, missed and ended.

It is never waited for: it is told more only when it has drawn what it was told before. Where it cannot be had or is
lost, that is said once, and the script's own process draws.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .generation import generation
from .pose import has_pose, kind_of, take_pose

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN = Path(__file__).with_name("begin.py")
START_SECONDS = 60.0  # to be ready; it gives way to everybody, so on a busy machine that may take long
COMING_SECONDS = 3.0  # that a picture is put off for it: the first one that is drawn here stops the script for longer
STUCK_SECONDS = 10.0  # to draw what it was told
REST_SECONDS = 10.0  # without anybody who watches, until it is sent away
GOODBYE_SECONDS = 1.0  # for the kernel to end what was killed
LARGEST_ANSWER = 4096  # bytes


class Drawn(NamedTuple):
    pictures: int
    seconds: float  # of a processor's time


class Painter:
    def __init__(self, lane: Path, say: Callable[..., None]) -> None:
        """Nothing is started yet."""
        self._say = say
        self.reason = ""  # why it is not asked any more
        self.is_ready = self.is_busy = False
        self._lane = lane
        self._generation = generation()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._told_at = self._wanted_at = 0.0  # as `time.monotonic` counts

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def is_coming(self, now: float) -> bool:
        return self._line is not None and not self.is_ready and now - self._told_at < COMING_SECONDS

    def attend(self, env: Any, now: float) -> Drawn:
        """Somebody watches environments like `env`: it is started if it is not there. What it has drawn meanwhile."""
        self._wanted_at = now
        if self.reason:
            return Drawn(0, 0.0)
        if generation() != self._generation:
            self.reason = "an environment in a process of its own is drawn there"
        elif not has_pose(env):
            self.reason = f"it is not known what {type(env.unwrapped).__name__} is drawn from"
        elif self._line is None:
            self._start(kind_of(env), now)
        return Drawn(0, 0.0) if self._line is None else self._hear(self._line, now)

    def tell(self, tiles: dict[int, tuple[Any, tuple[Any, ...]]], now: float) -> None:
        """Environment and numbers, by slot."""
        assert self._line is not None, "it is ready"
        at = time.time()
        orders = [
            {"slot": slot, "kind": kind_of(env), "pose": take_pose(env), "numbers": numbers, "at": at}
            for slot, (env, numbers) in tiles.items()
        ]
        try:
            self._line.send(json.dumps(orders).encode())
        except OSError as error:
            self._give_up(f"it takes no more: {error.strerror}")
        else:
            self.is_busy, self._told_at = True, now

    def rest(self, now: float) -> None:
        """Nobody watches."""
        if self._line is not None and now - self._wanted_at > REST_SECONDS:
            self.close()

    def close(self) -> None:
        """It has nothing to save: whatever it writes is whole or was never there."""
        if self._line is not None:
            self._line.close()
        if self._process is not None and generation() == self._generation:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GOODBYE_SECONDS)
        self._process, self._line, self.is_ready, self.is_busy = None, None, False, False

    def _start(self, kind: str, now: float) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                command = [sys.executable, str(BEGIN), "paint", str(theirs.fileno())]
                self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
            except OSError as error:
                ours.close()
                self._give_up(f"it cannot be started: {error.strerror}")
                return
        ours.settimeout(0.0)
        ours.send(json.dumps({"parent": os.getpid(), "lane": str(self._lane), "kind": kind}).encode())
        self._line, self._told_at = ours, now

    def _hear(self, line: socket.socket, now: float) -> Drawn:
        try:
            data = line.recv(LARGEST_ANSWER)
        except BlockingIOError:
            self._notice_whether_it_is_stuck(now)
            return Drawn(0, 0.0)
        except OSError:
            data = b""
        answer: dict[str, Any] = json.loads(data) if data else {"failed": "it was lost"}
        if "failed" in answer:
            self._give_up(answer["failed"])
            return Drawn(0, 0.0)
        self.is_ready, self.is_busy = True, False
        return Drawn(answer.get("drawn", 0), answer.get("seconds", 0.0))

    def _notice_whether_it_is_stuck(self, now: float) -> None:
        patience = STUCK_SECONDS if self.is_ready else START_SECONDS
        if (self.is_busy or not self.is_ready) and now - self._told_at > patience:
            self._give_up(f"it said nothing for {patience:g} s")

    def _give_up(self, reason: str) -> None:
        self.close()
        self.reason = reason
        self._say("unpainted", reason)
