"""Which process this is, counted by forks: the system takes a microsecond to say it, and every episode asks."""

from __future__ import annotations

import os

FORKS = [0]  # read where a call would cost too much


def generation() -> int:
    """Another number in every process that is forked from this one, and in its own."""
    return FORKS[0]


def _count() -> None:
    FORKS[0] += 1


os.register_at_fork(after_in_child=_count)
