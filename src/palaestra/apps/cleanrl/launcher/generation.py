"""Which process this is, counted by forks: the system takes a microsecond to say it, and every episode asks."""

from __future__ import annotations

import os

_forks = 0


def generation() -> int:
    """Another number in every process that is forked from this one, and in its own."""
    return _forks


def _count() -> None:
    global _forks  # noqa: PLW0603  it is the process's own number
    _forks += 1


os.register_at_fork(after_in_child=_count)
