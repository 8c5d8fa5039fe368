"""One log file per process of a run; every line carries run id and rank, so that one grep tells a run's story."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger("palaestra")


def this_rank() -> int:
    """Rank within a group of processes, as torchrun gives it; 0 when there is only one."""
    return int(os.environ.get("RANK", "0"))


def log_master(message: str, *arguments: object, level: int = logging.INFO) -> None:
    """Say it once for the whole group, not once per process."""
    if this_rank() == 0:
        logger.log(level, message, *arguments)


@contextmanager
def run_log(directory: RunDirectory) -> Iterator[None]:
    """Everything that our loggers say during the block also goes to `logs/rank_<n>.log`."""
    rank = this_rank()
    directory.logs.mkdir(exist_ok=True)
    handler = logging.FileHandler(directory.log_file(rank), encoding="utf-8")
    line = f"%(asctime)s %(levelname)s run={directory.id} rank={rank} %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(line))
    level_before = logger.level
    logger.addHandler(handler)
    logger.setLevel(os.environ.get("PALAESTRA_LOG_LEVEL", "INFO").upper())
    try:
        yield
    finally:
        logger.setLevel(level_before)
        logger.removeHandler(handler)
        handler.close()
