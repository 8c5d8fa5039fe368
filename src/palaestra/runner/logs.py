"""Saying it once for the whole group of processes, and saying warnings to the person too."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from contextlib import contextmanager
from select import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger("palaestra")
traceback_logger = logging.getLogger("palaestra.traceback")


def this_rank() -> int:
    """Rank within a group of processes, as torchrun gives it; 0 when there is only one."""
    return int(os.environ.get("RANK", "0"))


def log_master(message: str, *arguments: object, level: int = logging.INFO) -> None:
    """Log from the leader only, so that N processes do not say it N times."""
    if this_rank() == 0:
        logger.log(level, message, *arguments)


def log_traceback(error: BaseException) -> None:
    """Whole, with all causes; in the log only, because whoever reports it shortens it."""
    log_lines("".join(traceback.format_exception(error)))


def log_lines(text: str) -> None:
    """A record for each line."""
    for line in text.splitlines():
        traceback_logger.error("%s", line)


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """For the block's duration warnings are not only in the log file; also with --quiet, which is about the table."""
    handler = StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class StderrHandler(logging.Handler):
    """Looks `sys.stderr` up every time: while the status table is shown, that is a proxy which prints above it."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != traceback_logger.name and _takes_text():
            print(f"palaestra: {self.format(record)}", file=sys.stderr)


def _takes_text() -> bool:
    """A terminal stopped with Ctrl-S must not hold up the run; what has no descriptor never waits."""
    try:
        return sys.__stderr__ is None or bool(select([], [sys.__stderr__], [], 0)[1])
    except (OSError, ValueError):
        return True
