"""metrics.db, which every run writes."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from palaestra.core.errors import RunFailed
from palaestra.runs.metrics.writer import wait_for_writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.core.metrics_logger import Sample

logger = logging.getLogger(__name__)

MAX_WAITING = 10_000  # samples kept in memory while the disk says no
WRITE_SECONDS = 0.25  # between two transactions: fast trainings have hundreds of samples a second


class MetricsStoreLogger:
    """A disk that is full now may have room later: samples wait for it, in order, instead of being lost.

    They also wait for each other, for as long as nobody notices; `flush` and `close` write what waits.
    """

    name = "metrics"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = wait_for_writer(path)
        self._waiting: deque[Sample] = deque(maxlen=MAX_WAITING)
        self._written_at = float("-inf")
        self._is_warned = False

    def write(self, sample: Sample) -> None:
        self._waiting.append(sample)
        if time.monotonic() - self._written_at >= WRITE_SECONDS:
            self._catch_up()

    def rewind(self, step: int) -> None:
        self._catch_up()
        self._writer.rewind(step)

    def drop_intervals(self, first_step: int) -> None:
        self._writer.drop_intervals(first_step)

    def flush(self) -> None:
        self._catch_up()
        try:
            self._writer.flush()
        except RunFailed as error:
            self._warn(error)

    def begin_flush(self) -> Callable[[], None]:
        self._catch_up()
        return self._sync

    def close(self) -> None:
        self._catch_up()
        if self._waiting:
            logger.warning("%d samples could not be written to %s.", len(self._waiting), self._path)
        self._writer.close()

    def _catch_up(self) -> None:
        self._written_at = time.monotonic()
        try:
            self._writer.write(*self._waiting)
            self._waiting.clear()
            self._is_warned = False
        except RunFailed as error:
            self._warn(error)

    def _sync(self) -> None:
        try:
            self._writer.sync_log()
        except RunFailed as error:
            self._warn(error)

    def _warn(self, error: RunFailed) -> None:
        if not self._is_warned:
            logger.warning("Metrics wait in memory: %s", error)
        self._is_warned = True
