"""Stopping on request: the first signal finishes the update and saves, the second stops now, a third ends us."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # SIGUSR1: SLURM's warning before the time is up


class StopNow(BaseException):
    """The second signal; nobody's `except Exception` may hold it up."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = exit_code_of(number)


class StopRequest:
    """A flag and nothing else: a handler that did more could do it in the middle of anything."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
            return
        for each in STOPPING:  # whoever asks a third time does not want to wait for the tidying up either
            signal.signal(each, signal.SIG_DFL)
        raise StopNow(number)


def exit_code_of(number: int) -> int:
    """130 after SIGINT, 143 after SIGTERM, as shells count; SIGUSR1 is SLURM's way to say SIGTERM."""
    return 128 + (signal.SIGTERM if number == signal.SIGUSR1 else number)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Listen for the block's duration. Outside the main thread (a notebook's worker) nothing can be listened to."""
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
