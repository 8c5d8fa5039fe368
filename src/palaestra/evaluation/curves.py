"""`tensorboard_eval/`: one file of events for as long as somebody judges, made when there is something to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.core.clock import Clock, SystemClock
from palaestra.loggers.tensorboard import TensorBoardLogger

if TYPE_CHECKING:
    from palaestra.core.metrics_logger import Sample
    from palaestra.runs.directory import RunDirectory


class Curves:
    """Of one run. Files are numbered, so whoever draws must be the only writer of the run's evaluations just then."""

    def __init__(self, directory: RunDirectory, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or SystemClock()
        self._tensorboard: TensorBoardLogger | None = None

    def draw(self, sample: Sample) -> None:
        if self._tensorboard is None:
            self._tensorboard = TensorBoardLogger(self._directory.tensorboard_eval, {}, self._clock)
        self._tensorboard.write(sample)
        self._tensorboard.flush()

    def close(self) -> None:
        if self._tensorboard is not None:
            self._tensorboard.close()
            self._tensorboard = None
