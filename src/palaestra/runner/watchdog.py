"""A thread that ends the run when one step of an environment in this process hangs.

It inspects the stack of the training thread once a second, so steps pay nothing for it. A step that hangs in Python is
interrupted with an exception; one that hangs in compiled code ends the process. Code that hangs while it holds the
global interpreter lock blocks this thread too; a thread of the compiled module `lock_watch`, which does not need the
lock, then ends the process.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from palaestra.core.errors import RunFailed
from palaestra.core.tracebacks import shorten_stack
from palaestra.envs.vector.step_in_progress import StepInProgress, find_step
from palaestra.runner.logs import log_lines
from palaestra.runner.signals import StopNow, StopRequest

try:
    from palaestra.runner import lock_watch
except ImportError:  # not compiled
    lock_watch = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from palaestra.runner.abort import Abort

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
LONGEST_CHECK_SECONDS = 2.0  # longer pauses mean that this process was stopped, or the machine was suspended
STOP_SECONDS = 5.0  # how long a step may take after a stop signal
RETURN_SECONDS = 5.0  # for an interrupted step to return


class StepTimeout(BaseException):
    """Raised inside a step that hangs. A `BaseException`, so that user code does not catch it."""

    def __init__(self, failure: RunFailed) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Watchdog:
    """`check` is one check; `watch_steps` checks once a second."""

    def __init__(self, timeout: float, abort: Abort, clock: Callable[[], float] = monotonic) -> None:
        """`timeout`: seconds that one step may take; 0: no limit, then only stop signals are watched."""
        self.stop: StopRequest | None = None  # set once signals are handled
        self._timeout = timeout
        self._abort = abort
        self._clock = clock
        self._thread = threading.get_ident()
        self._is_main = threading.current_thread() is threading.main_thread()
        self._step: StepInProgress | None = None  # as of the last check
        self._seconds = 0.0  # that it has taken by now
        self._stopping_seconds = 0.0  # of these, since a signal came
        self._given_up_at: float | None = None  # seconds, when it was interrupted
        self._checked_at = clock()

    def check(self) -> None:
        now = self._clock()
        passed, self._checked_at = min(now - self._checked_at, LONGEST_CHECK_SECONDS), now
        step = find_step(sys._current_frames().get(self._thread))
        if step is None or not step.is_same_as(self._step):
            self._step, self._given_up_at = step, None
            self._seconds = self._stopping_seconds = 0.0
            return
        self._seconds += passed
        if self.stop:
            self._stopping_seconds += passed
        if self._stopping_seconds >= STOP_SECONDS and self.stop is not None and self.stop.signal is not None:
            self._give_up(step, self._cancelled(step, self.stop.signal))
        elif self._timeout and self._seconds >= self._timeout and not step.is_elsewhere:
            self._give_up(step, self._failed(step))

    def _failed(self, step: StepInProgress) -> StepTimeout:
        failure = RunFailed(
            f"A step has not returned for {self._seconds:.0f} s: {step.where}.",
            "If one step may take so long, set env.step_timeout higher (seconds; 0: no limit).",
        )
        stack = traceback.extract_stack(self._frame())
        failure.user_traceback = f"It hangs here (most recent call last):\n{shorten_stack(stack)}"
        return StepTimeout(failure)

    def _cancelled(self, step: StepInProgress, number: int) -> StopNow:
        name = signal.Signals(number).name
        return StopNow(number, f"{name} came in a step that has not returned for {self._seconds:.0f} s: {step.where}")

    def _give_up(self, step: StepInProgress, error: StepTimeout | StopNow) -> None:
        stack = "".join(traceback.format_stack(self._frame()))
        if not self._is_main:  # cannot be interrupted, and the process must not be ended
            if self._given_up_at is None:
                self._given_up_at = self._seconds
                log_lines(stack)
            return
        if self._given_up_at is None and self.stop is not None and self.stop.can_raise():
            self._given_up_at = self._seconds
            if isinstance(error, StopNow):
                logger.warning("%s.", error.reason)
            self.stop.raise_in_main_thread(error, lambda frame: step.is_same_as(find_step(frame)))
        elif self._given_up_at is None or self._seconds - self._given_up_at >= RETURN_SECONDS:
            if isinstance(error, StopNow):
                self._abort.cancel(error, stack)
            self._abort.fail(error.failure, stack)

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread)


@contextmanager
def watch_steps(timeout: float, abort: Abort) -> Iterator[Watchdog]:
    watchdog, is_over = Watchdog(timeout, abort), threading.Event()

    def check_until_over() -> None:
        with lock_watched(timeout) as feed:
            while not is_over.wait(CHECK_SECONDS):
                watchdog.check()
                feed()

    thread = threading.Thread(target=check_until_over, name="palaestra-watchdog", daemon=True)
    thread.start()
    try:
        yield watchdog
    finally:
        is_over.set()
        thread.join()


@contextmanager
def lock_watched(timeout: float) -> Iterator[Callable[[], None]]:
    """Call what it yields at least once a second; the process ends (SIGABRT) after `timeout` seconds without a call."""
    if lock_watch is None or not timeout:
        yield lambda: None
        return
    limit = timeout + RETURN_SECONDS
    watch = lock_watch.LockWatch(
        limit,
        f"palaestra: No Python code has run for {limit:.0f} s: compiled code hangs and holds the global interpreter "
        "lock, so it cannot be interrupted, and the process ends. The stack below shows where.\n  If one step may take "
        "so long, set env.step_timeout higher (seconds; 0: no limit). With env.workers=N the environments run in "
        "processes of their own.\n",
    )
    try:
        yield watch.feed
    finally:
        watch.close()
