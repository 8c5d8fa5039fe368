"""What a training process reports to its launcher before it exits: one line of JSON through a pipe."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from palaestra.core.errors import PalaestraError

if TYPE_CHECKING:
    from palaestra.core.child_process import LineChild

REPORT_VARIABLE = "PALAESTRA_REPORT_FD"  # the pipe's descriptor
MAX_TEXT = 4000  # characters; the launcher reads only after the end, and a pipe holds 64 KiB


@dataclass(frozen=True)
class ExitReport:
    exit_code: int
    at: float  # seconds of the monotonic clock, which all processes of a machine share
    directory: str = ""  # of the run, when there is an outcome
    error: str = ""  # empty: it ended in order
    hint: str = ""
    user_traceback: str = ""
    is_consequence: bool = False  # another rank failed first


def report_of(error: BaseException, *, is_consequence: bool) -> ExitReport:
    now = time.monotonic()
    if not isinstance(error, PalaestraError):
        text = f"{type(error).__name__}: {error}"
        return ExitReport(1, now, error=text[:MAX_TEXT], is_consequence=is_consequence)
    return ExitReport(
        error.exit_code,
        now,
        error=error.message[:MAX_TEXT],
        hint=error.hint[:MAX_TEXT],
        user_traceback=error.user_traceback,
        is_consequence=is_consequence,
    )


def send_report(report: ExitReport) -> None:
    """To the launcher, which started this process with a pipe for it."""
    os.write(int(os.environ[REPORT_VARIABLE]), json.dumps(asdict(report)).encode() + b"\n")


def receive_report(child: LineChild) -> ExitReport | None:
    """From a process that has ended; None when it was ended before it had reported. The child is closed."""
    try:
        lines = child.receive_lines()
    except EOFError:
        lines = []
    child.end()
    return parse_report(lines[-1]) if lines else None


def parse_report(line: bytes) -> ExitReport | None:
    try:
        return ExitReport(**json.loads(line))
    except (ValueError, TypeError):
        return None
