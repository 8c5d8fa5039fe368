"""A thread that notices when one step of an environment in this process never ends, and ends the run for it.

It looks once a second at the stack of the thread that trains; the steps themselves do nothing for it. What hangs is
interrupted with an exception. Compiled code that does not come back to Python cannot be: then the process is ended.
Code that hangs while it holds Python's global interpreter lock keeps this thread from running too; a thread of the
compiled module `lock_watch`, which needs no lock, notices that and ends the process.
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
except ImportError:  # no compiler has been here
    lock_watch = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from palaestra.runner.abort import Abort

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
LONGEST_CHECK_SECONDS = 2.0  # a longer one means that this process was stopped, or the machine slept
STOP_SECONDS = 5.0  # how long one step may still take when a signal has asked to stop
RETURN_SECONDS = 5.0  # for a step that was interrupted to come back


class StepTimeout(BaseException):
    """Raised inside a step that hangs; nobody's `except Exception` may hold it up."""

    def __init__(self, failure: RunFailed) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Watchdog:
    """`check` is one check; `watch_steps` checks once a second."""

    def __init__(self, timeout: float, abort: Abort, clock: Callable[[], float] = monotonic) -> None:
        """`timeout`: seconds that one step may take; 0: any number, and only signals are watched for."""
        self.stop: StopRequest | None = None  # once signals are listened to
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
        if not self._is_main:  # nobody can interrupt it, and the program is not ours to end
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
    """Call what it yields at least once a second: if nobody can for `timeout` seconds, the process ends (SIGABRT)."""
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
