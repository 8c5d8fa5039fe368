"""Stop requests: the first signal finishes the update and saves, the second stops now, a third kills the process."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # SIGUSR1: SLURM's warning before the time is up


WAKING = signal.SIGTERM  # interrupts the main thread from another thread


class StopNow(BaseException):
    """The second signal, or one during a step that hangs. A `BaseException`, so that user code does not catch it."""

    def __init__(self, number: int, reason: str = "") -> None:
        name = signal.Signals(number).name
        super().__init__(name)
        self.reason = reason or f"second signal, {name}: stopped at once"
        self.exit_code = exit_code_of(number)


class StopRequest:
    """A flag that signal handlers set; they do nothing else, because they interrupt any code."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._to_raise: tuple[BaseException, Callable[[FrameType | None], bool]] | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def can_raise(self) -> bool:
        """Whether the handler is still this one; an environment may have replaced it."""
        return signal.getsignal(WAKING) == self.handle

    def raise_in_main_thread(self, error: BaseException, is_still_there: Callable[[FrameType | None], bool]) -> None:
        """Raises `error` in the main thread, from another thread, also during a system call.

        Only if `is_still_there`, called with the frame of the main thread, says so.
        """
        self._to_raise = (error, is_still_there)
        signal.pthread_kill(threading.main_thread().ident or 0, WAKING)

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self._to_raise is not None and number == WAKING:
            (error, is_still_there), self._to_raise = self._to_raise, None
            if is_still_there(frame):
                raise error
            return
        if self.signal is None:
            self.signal = number
            return
        for each in STOPPING:  # a third signal must not wait for the cleanup either
            signal.signal(each, signal.SIG_DFL)
        raise StopNow(number)


def exit_code_of(number: int) -> int:
    """130 after SIGINT, 143 after SIGTERM, as shells count; SIGUSR1 is SLURM's way to say SIGTERM."""
    return 128 + (signal.SIGTERM if number == signal.SIGUSR1 else number)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Handles signals for the duration of the block. Does nothing outside the main thread (in a notebook's worker)."""
    request = StopRequest()
    before = {}
    try:
        for number in STOPPING:
            before[number] = signal.signal(number, request.handle)
    except ValueError:
        before.clear()
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
