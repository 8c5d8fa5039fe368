"""When Python searches for objects that hold each other and nobody else: hardly while a command starts, then as usual.

With Python's 700 new objects between two searches they take a tenth of a start. A training makes so few that with a
start's 50,000 it kept for half an hour what could have gone; searches as usual take it less than 0.1 ms a second. What
a start has made is left out of them: the first search through all of it would hold up a training for 20 ms, and find
next to nothing.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NEW_OBJECTS = 50_000  # between two searches, while something starts

_usual: tuple[int, int, int] | None = None  # what was set before; None: as it is now


def collect_rarely() -> None:
    """For a command that starts in a process of its own."""
    global _usual  # noqa: PLW0603  the interpreter has one collector
    _usual = _usual or gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS)


@contextmanager
def default_collection() -> Iterator[None]:
    """While what was started is at work. In a process that never asked for less, nothing changes."""
    global _usual  # noqa: PLW0603
    if _usual is None:
        yield
        return
    gc.freeze()
    gc.set_threshold(*_usual)
    _usual = None
    try:
        yield
    finally:
        gc.unfreeze()  # whoever leaves is searched whole: engines and files are closed by it
