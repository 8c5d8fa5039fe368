"""Ends this process at once, from any thread, and records why: in the run's files, on stderr or at the launcher.

For a step that cannot be interrupted, and for `os._exit` in the user's code.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

from palaestra.algorithms.group import ALONE, PeerLost
from palaestra.core.errors import RunFailed
from palaestra.core.tracebacks import shorten_stack
from palaestra.envs.vector.step_in_progress import find_step
from palaestra.runner.launcher import REPORT_VARIABLE, report_of, send_report
from palaestra.runner.logs import log_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from palaestra.algorithms.group import Group
    from palaestra.runner.session import RunSession
    from palaestra.runner.signals import StopNow

SHOW_CURSOR = "\x1b[?25h"  # the status table hides it


class Abort:
    """Ends the process. `session` is None until the run has started; `group` has one rank until all have joined."""

    def __init__(self, group: Group = ALONE) -> None:
        self.session: RunSession | None = None
        self.group = group
        self._main_thread = threading.get_ident()
        self._exit = os._exit  # Python's own, also while `exits_reported` replaces it

    def fail(self, failure: RunFailed, stack: str) -> NoReturn:
        """`stack`: the whole stack, for the log."""
        if self.session is not None and not self.session.record.state.is_over:
            log_lines(stack)
            self.session.failed(failure, failure.exit_code)
        self._leave(failure, failure.exit_code)

    def end_after_loss(self, lost: PeerLost) -> NoReturn:
        """Another rank is lost, and the training thread has not noticed in time because it is in a long step."""
        stack = traceback.format_stack(sys._current_frames().get(self._main_thread))
        self.fail(lost, "".join(stack))

    def cancel(self, now: StopNow, stack: str) -> NoReturn:
        if self.session is not None and not self.session.record.state.is_over:
            log_lines(stack)
            self.session.cancelled(now.reason, now.exit_code)
        self._leave(RunFailed(now.reason), now.exit_code)

    def _leave(self, failure: RunFailed, code: int) -> NoReturn:
        self.group.post_failure(failure.message)
        if REPORT_VARIABLE in os.environ:
            send_report(report_of(failure, is_consequence=isinstance(failure, PeerLost)))
        else:  # otherwise the launcher prints it, once for all ranks
            cursor = SHOW_CURSOR if sys.stderr.isatty() else ""
            trace = f"{failure.user_traceback}\n\n" if failure.user_traceback else ""
            hint = f"\n  {failure.hint}" if failure.hint else ""
            print(f"{cursor}{trace}palaestra: {failure.message}{hint}", file=sys.stderr, flush=True)
        self._exit(code)


def explain_crashes() -> None:
    """A fault in compiled code (SIGSEGV and the like) prints the Python stack on stderr from now on."""
    if not faulthandler.is_enabled():
        with suppress(OSError, RuntimeError):  # a notebook's stderr has no descriptor
            faulthandler.enable()


@contextmanager
def exits_reported(abort: Abort) -> Iterator[None]:
    """In the block `os._exit` is a failure of the run, with the line that called it, whatever its status."""
    exit_now, owner = os._exit, os.getpid()

    def report_and_exit(status: int) -> NoReturn:
        if os.getpid() != owner:  # a forked process may exit
            exit_now(status)
        abort.fail(*_describe_exit(status, sys._getframe(1)))

    os._exit = report_and_exit
    try:
        yield
    finally:
        os._exit = exit_now


def _describe_exit(status: int, frame: FrameType) -> tuple[RunFailed, str]:
    step = find_step(frame)
    where = f" in {step.where}" if step is not None else ""
    stack = traceback.extract_stack(frame)
    failure = RunFailed(
        f"os._exit({status}) was called{where}.", "Raise an exception instead: os._exit ends the training itself."
    )
    failure.user_traceback = f"os._exit was called here (most recent call last):\n{shorten_stack(stack)}"
    return failure, "".join(stack.format())
