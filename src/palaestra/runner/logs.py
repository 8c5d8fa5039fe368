"""Logging of a training process: once per group of ranks, warnings also on stderr, tracebacks only in the file."""

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
    """The rank that torchrun or our launcher has set; 0 for a single process."""
    return int(os.environ.get("RANK", "0"))


def log_master(message: str, *arguments: object, level: int = logging.INFO) -> None:
    """Logs on rank 0 only."""
    if this_rank() == 0:
        logger.log(level, message, *arguments)


def log_traceback(error: BaseException) -> None:
    """The whole traceback with its causes, in the log file only: error messages show a shortened one."""
    log_lines("".join(traceback.format_exception(error)))


def log_lines(text: str) -> None:
    """One record per line."""
    for line in text.splitlines():
        traceback_logger.error("%s", line)


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Prints warnings on stderr for the duration of the block, also with --quiet."""
    handler = StderrHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class StderrHandler(logging.Handler):
    """Looks up `sys.stderr` for every record: while the status table is shown, it is a proxy that prints above it."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != traceback_logger.name and _accepts_text():
            print(f"palaestra: {self.format(record)}", file=sys.stderr)


def _accepts_text() -> bool:
    """Whether stderr accepts text now. A terminal stopped with Ctrl-S must not block the run."""
    try:
        return sys.__stderr__ is None or bool(select([], [sys.__stderr__], [], 0)[1])
    except (OSError, ValueError):
        return True
