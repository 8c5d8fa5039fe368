"""Saying it once for the whole group of processes."""

from __future__ import annotations

import logging
import os

logger = logging.getLogger("palaestra")


def this_rank() -> int:
    """Rank within a group of processes, as torchrun gives it; 0 when there is only one."""
    return int(os.environ.get("RANK", "0"))


def log_master(message: str, *arguments: object, level: int = logging.INFO) -> None:
    """Log from the leader only, so that N processes do not say it N times."""
    if this_rank() == 0:
        logger.log(level, message, *arguments)
