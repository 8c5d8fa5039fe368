"""Starts, feeds, watches and ends the render process of a process that steps environments.

This side never waits. If the render process cannot be started, or is lost twice, `on_failure` is called once and frames
are rendered in this process. Environments in forked processes send their states through the same socket.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .env_state import NotDescribable, StateEncoder
from .messages import MessageTooLong, PeerClosed, socket_pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from .frame_format import Numbers
    from .frame_writer import FrameWriter

START = Path(__file__).with_name("start.py")
START_SECONDS = 60.0  # until ready; it has the lowest priority, so on a busy machine starting may take long
SHORT_WAIT_SECONDS = 3.0
IDLE_SECONDS = 10.0  # without a viewer, until the process is ended
STUCK_SECONDS = 20.0  # of steps without a frame
RESEND_SECONDS = 10.0  # until a state that was not rendered is sent again
KILL_SECONDS = 1.0  # for the kernel to end a killed process
RESTARTS = 1  # after a process was lost
LONGEST_PAUSE = 1.0  # seconds between two calls that count: a long update does not mean that the process is stuck
SHARED = struct.Struct("<II")  # status, session


class Status(IntEnum):
    IDLE = 0
    STARTING = 1
    READY = 2
    FAILED = 3


class RenderClient:
    def __init__(
        self,
        frame_buffer: Path,
        on_failure: Callable[[str], None] = lambda _reason: None,
        short_wait: float = SHORT_WAIT_SECONDS,
        *,
        only_costly: bool = False,
    ) -> None:
        """Starts nothing yet. Create it before environments are forked, so that all of them share it.

        `short_wait`: how many seconds cheap environments wait for a starting process. `only_costly`: cheap ones are
        always rendered in this process, because a second process would take a core that the first one needs.
        """
        self.reason = ""  # why it failed
        self._path = frame_buffer
        self._short_wait = short_wait
        self._only_costly = only_costly
        self._on_failure = on_failure
        self._owner = os.getpid()
        self._shared = mmap.mmap(-1, mmap.PAGESIZE)  # shared with forked processes
        self._ours, self._theirs = socket_pair()
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = self._wanted_at = 0.0  # on the machine's monotonic clock
        self._without_frame, self._frames = 0.0, -1
        self._losses = 0
        self._encoders: dict[int, StateEncoder] = {}
        self._encoder_session = 0
        self._pending: dict[int, tuple[int, float]] = {}  # by slot: its frame count when a state was sent, and the time

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def status(self) -> Status:
        return Status(SHARED.unpack_from(self._shared)[0])

    @property
    def _session(self) -> int:
        return int(SHARED.unpack_from(self._shared)[1])

    def _set(self, status: Status, session: int | None = None) -> None:
        SHARED.pack_into(self._shared, 0, status, self._session if session is None else session)

    @property
    def is_owner(self) -> bool:
        return os.getpid() == self._owner

    def attend(self, now: float, frames: int) -> Status:
        """There is a viewer: starts the process if needed. `frames`: written so far by all processes."""
        if self.is_owner:
            if self.status is Status.IDLE:
                self._start(now)
            if self._process is not None:
                self._receive(self._process, now)
                self._check_progress(now, frames)
            self._wanted_at = now
        return self.status

    def end(self) -> None:
        """Ends the process, because frames are rendered elsewhere; does nothing in a forked process."""
        if self.is_owner:
            self._end_process()

    def can_describe(self, slot: int, env: Any, recipe: Callable[[], dict[str, Any]]) -> bool:
        """Whether the render process can render this environment. `recipe`: see `env_copy.make_copy`."""
        known = self._encoders.get(slot)
        if known is not None and known.env is env:
            return True
        try:
            self._encoders[slot] = StateEncoder(env, recipe())
        except NotDescribable as error:
            self._fail(str(error), is_expected=True)
            return False
        self._pending.pop(slot, None)
        return True

    def must_wait(self, now: float) -> bool:
        """Whether to wait for the starting process, because rendering here meanwhile would slow stepping down."""
        if self.status is Status.FAILED:
            return False
        return self._is_costly or not self.is_owner or now - self._started_at < self._short_wait

    @property
    def is_needed(self) -> bool:
        """Whether the environments described so far need a render process."""
        return self._is_costly or not self._only_costly

    @property
    def _is_costly(self) -> bool:
        return any(encoder.is_costly for encoder in self._encoders.values())

    def is_due(self, slot: int, writer: FrameWriter, now: float) -> bool:
        """Whether the last state that was sent has been rendered."""
        if slot not in self._pending:
            return True
        frames, sent_at = self._pending[slot]
        return writer.frames_of(slot) != frames or now - sent_at > RESEND_SECONDS

    def send(self, slot: int, numbers: Numbers, writer: FrameWriter, now: float) -> None:
        """Sends the state of the environment in this slot; a state that finds no room is dropped."""
        if self._encoder_session != self._session:
            self._encoder_session = self._session
            for encoder in self._encoders.values():
                encoder.start_over()
        encoder = self._encoders[slot]
        figures = (numbers.env_step, numbers.reward, numbers.total_reward, numbers.length)
        try:
            message = {"of": self._session, "slot": slot, "at": time.time(), "numbers": figures}
            is_sent = self._ours.send({**message, "state": encoder.encode()})
        except NotDescribable as error:
            self._fail(str(error))
        except MessageTooLong as error:
            self._fail(f"its state has {error}")
        except PeerClosed:
            self._fail("the render process cannot be reached")
        else:
            self._pending[slot] = (writer.frames_of(slot), now)
            if not is_sent:
                encoder.start_over()

    def release(self, now: float) -> None:
        """There is no viewer: ends the process after a while."""
        if self.is_owner and self._process is not None and now - self._wanted_at > IDLE_SECONDS:
            self._end_process()
            self._set(Status.IDLE)

    def close(self) -> None:
        """Ends the process, which has nothing to save: a frame is either complete or was never written."""
        if self.is_owner:
            self._end_process()
        self._ours.close()
        self._theirs.close()

    def _start(self, now: float) -> None:
        main_thread = threading.current_thread() is threading.main_thread()
        arguments = [self._theirs.fileno(), os.getpid() if main_thread else 0, self._path]
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        self._session_started(now)
        try:
            self._process = subprocess.Popen(
                [sys.executable, str(START), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard error: output of environments must not mix with the parent's output
                # software OpenGL must not take the core of the process that trains
                env={**os.environ, "OMP_NUM_THREADS": "1", "LP_NUM_THREADS": "0", "PYTHONPATH": path},
                pass_fds=(self._theirs.fileno(),),
            )
        except OSError as error:
            self._fail(f"it cannot be started: {error.strerror}")

    def _session_started(self, now: float) -> None:
        session = self._session + 1
        self._set(Status.STARTING, session)
        with suppress(PeerClosed):
            self._drain()
            self._ours.send({"session": session})
        self._started_at, self._without_frame = now, 0.0
        self._pending.clear()

    def _drain(self) -> None:
        """Discards messages that the previous process left unread, and its last ones to us."""
        for end in (self._theirs, self._ours):
            while end.receive() is not None:
                pass

    def _receive(self, process: subprocess.Popen[bytes], now: float) -> None:
        try:
            message = self._ours.receive()
        except PeerClosed:
            message = None
        if message is not None and "failed" in message:
            self._fail(str(message["failed"]))
        elif message is not None:
            self._set(Status.READY)
        elif process.poll() is not None:
            self._handle_loss(f"it ended {_ending(process.returncode)}")
        elif self.status is Status.STARTING and now - self._started_at > START_SECONDS:
            self._fail(f"it was not ready after {START_SECONDS:g} s")

    def _check_progress(self, now: float, frames: int) -> None:
        if frames != self._frames or self.status is not Status.READY:
            self._frames, self._without_frame = frames, 0.0
            return
        self._without_frame += min(now - self._wanted_at, LONGEST_PAUSE)
        if self._without_frame > STUCK_SECONDS:
            self._handle_loss(f"it rendered nothing for {STUCK_SECONDS:g} s")

    def _handle_loss(self, how: str) -> None:
        """Starts another one with the next frame, unless one was lost before."""
        self._losses += 1
        if self._losses > RESTARTS:
            self._fail(f"it was lost {self._losses} times; at last {how}")
        else:
            self._end_process()
            self._set(Status.IDLE)

    def _fail(self, reason: str, *, is_expected: bool = False) -> None:
        if self.is_owner:
            self._end_process()
        self._set(Status.FAILED)
        self._encoders.clear()
        self.reason = reason
        if not is_expected:
            self._on_failure(reason)

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_SECONDS)
        self._process = None


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {next((one.name for one in signal.Signals if one == -code), f'signal {-code}')}"
    return f"with exit code {code}"
