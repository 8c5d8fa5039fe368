"""`logs/rank_N.log`: every line says which run and which rank it belongs to."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError, did_you_mean, escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.runs.directory import RunDirectory

LEVEL_VARIABLE = "PALAESTRA_LOG_LEVEL"
LEVELS = ("debug", "info", "warning", "error")


def log_level() -> int:
    """From PALAESTRA_LOG_LEVEL; info when it is not set."""
    word = os.environ.get(LEVEL_VARIABLE) or "info"
    if word.lower() not in LEVELS:
        raise UsageError(
            f"{LEVEL_VARIABLE} is '{word}'.",
            did_you_mean(word.lower(), LEVELS) or f"It can be: {', '.join(LEVELS)}.",
        )
    return logging.getLevelNamesMapping()[word.upper()]


@contextlib.contextmanager
def run_log(directory: RunDirectory, rank: int = 0) -> Iterator[None]:
    """While the block lasts, what any part of Palaestra logs is also added to this rank's file."""
    root = logging.getLogger("palaestra")
    level_before = root.level
    handler = RunLogHandler(directory.log_file(rank), encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(RunFormatter(directory.id, rank))
    root.addHandler(handler)
    root.setLevel(log_level())
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level_before)
        handler.close()


class RunLogHandler(logging.FileHandler):
    """On a full disk lines are dropped silently: failed writes of metrics and checkpoints are reported anyway."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name for it
        """Instead of a traceback on stderr for every line."""

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


class RunFormatter(logging.Formatter):
    """One record, one line: what a name or an environment smuggled into a message cannot forge another record."""

    def __init__(self, run_id: str, rank: int) -> None:
        super().__init__(f"%(asctime)sZ %(levelname)s run={run_id} rank={rank} %(name)s: %(message)s")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))
