"""Garbage collection of reference cycles: rarely while a command starts, then with Python's default thresholds.

Python's default of 700 new objects between two collections costs a tenth of the start time. A training creates so few
objects that with the threshold of 50,000 garbage stays for half an hour; with the default, collections take less than
0.1 ms per second. Objects created during the start are frozen: the first collection over all of them would pause the
training for 20 ms and free almost nothing.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NEW_OBJECTS = 50_000  # between two collections during the start

_usual: tuple[int, int, int] | None = None  # thresholds before `collect_rarely`; None: unchanged


def collect_rarely() -> None:
    """Collect rarely from now on; for a command that starts in its own process."""
    global _usual  # noqa: PLW0603  the interpreter has one collector
    _usual = _usual or gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS)


@contextmanager
def default_collection() -> Iterator[None]:
    """Python's default thresholds inside the block. Does nothing without an earlier `collect_rarely`."""
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
        gc.unfreeze()  # so that the next collection closes engines and files
