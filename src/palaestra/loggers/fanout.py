"""Writes to all metrics loggers of a run. A logger that raises is reported once and disabled; the run continues.

This is the only module that may swallow any exception: a run must not fail because of its loggers, and some of them are
third-party code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.metrics_logger import MetricsLogger, Sample
    from palaestra.loggers.downsampling import Downsampler


@runtime_checkable
class Rewindable(Protocol):
    """A logger that can drop everything after a step, because the run resumes from there."""

    def rewind(self, step: int) -> None: ...


@runtime_checkable
class DropsIntervals(Protocol):
    """A logger that can drop the interval that was open when the run stopped, because it is filled again."""

    def drop_intervals(self, first_step: int) -> None:
        """Forget the intervals that reach `first_step`; samples of single moments stay."""
        ...


@runtime_checkable
class FlushesInBackground(Protocol):
    """A logger whose `flush` waits for a disk."""

    def begin_flush(self) -> Callable[[], None]:
        """A function that makes everything written so far durable; another thread may call it meanwhile."""
        ...


@runtime_checkable
class CheckpointListener(Protocol):
    def checkpoint_saved(self, checkpoint: Checkpoint) -> None: ...


@runtime_checkable
class LogsTables(Protocol):
    def table_made(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None: ...


@runtime_checkable
class LogsFiles(Protocol):
    """A logger that stores files: `kind` is their type, `name` the artifact of which they are a new version."""

    def files_made(self, name: str, kind: str, files: Sequence[Path]) -> None: ...


@runtime_checkable
class LogsNotes(Protocol):
    def note(self, text: str) -> None: ...


class LoggerFanout:
    """Writes to several loggers. Calls `on_dropped(name, error)` exactly once for a logger that fails.

    With a `downsampler`, loggers get downsampled intervals; those added with `every_sample` get every sample.
    """

    def __init__(self, on_dropped: Callable[[str, Exception], None], downsampler: Downsampler | None = None) -> None:
        self._on_dropped = on_dropped
        self._downsampler = downsampler
        self._loggers: list[MetricsLogger] = []
        self._every_sample: list[MetricsLogger] = []  # of the loggers, those that get all samples
        self._failed_in_background: list[tuple[MetricsLogger, Exception]] = []  # by whatever thread

    @property
    def names(self) -> list[str]:
        return [logger.name for logger in self._loggers]

    def add(self, name: str, make: Callable[[], MetricsLogger], *, every_sample: bool = False) -> None:
        """Create a logger and add it; one that cannot be created counts as failed."""
        try:
            logger = make()
        except Exception as error:  # noqa: BLE001  the one place, see above
            self._on_dropped(name, error)
            return
        self._loggers.append(logger)
        if every_sample:
            self._every_sample.append(logger)

    def write(self, *samples: Sample) -> None:
        """Write all samples to one logger after the other, which is faster than sample by sample."""
        fewer = samples if self._downsampler is None else tuple(self._downsampler.take(samples))
        self._write(samples, fewer)

    def flush(self) -> None:
        self._each(lambda logger: logger.flush())

    def begin_flush(self) -> Callable[[], None]:
        """`flush`, but for what waits for a disk: that is left to the function returned, for another thread."""
        waits: list[tuple[MetricsLogger, Callable[[], None]]] = []

        def begin(logger: MetricsLogger) -> None:
            if isinstance(logger, FlushesInBackground):
                waits.append((logger, logger.begin_flush()))
            else:
                logger.flush()

        def finish() -> None:
            for logger, wait in waits:
                error = _catch(lambda _: wait(), logger)  # noqa: B023  called before the next turn
                if error is not None:
                    self._failed_in_background.append((logger, error))

        self._each(begin)
        return finish

    def rewind(self, step: int) -> None:
        """Removes everything after `step`; called after a state is restored, before the first write."""
        self._each(lambda logger: logger.rewind(step) if isinstance(logger, Rewindable) else None)
        first_step = self._downsampler.open_since if self._downsampler is not None else None
        if first_step is not None:
            self._each(lambda logger: logger.drop_intervals(first_step) if isinstance(logger, DropsIntervals) else None)

    def capture(self) -> dict[str, Any]:
        """What was taken but not written yet, as plain data for a checkpoint."""
        return {} if self._downsampler is None else self._downsampler.capture()

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Call it before `rewind`. Checkpoints from before there was a downsampler have nothing for it."""
        if self._downsampler is not None and saved:
            self._downsampler.restore(saved)

    def checkpoint_saved(self, checkpoint: Checkpoint) -> None:
        self._each(
            lambda logger: logger.checkpoint_saved(checkpoint) if isinstance(logger, CheckpointListener) else None
        )

    def table_made(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A small table that is complete, such as a benchmark's."""
        self._each(lambda logger: logger.table_made(name, columns, rows) if isinstance(logger, LogsTables) else None)

    def files_made(self, name: str, kind: str, files: Sequence[Path]) -> None:
        self._each(lambda logger: logger.files_made(name, kind, files) if isinstance(logger, LogsFiles) else None)

    def note(self, text: str) -> None:
        """A line for the person who watches; never part of the metrics."""
        self._each(lambda logger: logger.note(text) if isinstance(logger, LogsNotes) else None)

    def close(self) -> None:
        """Close every logger once; a second call does nothing."""
        if self._downsampler is not None:
            self._write((), tuple(self._downsampler.finish()))
        self._each(lambda logger: logger.close())
        self._loggers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, samples: Sequence[Sample], fewer: Sequence[Sample]) -> None:
        def write_all(logger: MetricsLogger) -> None:
            for sample in samples if logger in self._every_sample else fewer:
                logger.write(sample)

        self._each(write_all)

    def _each(self, act: Callable[[MetricsLogger], None]) -> None:
        while self._failed_in_background:
            self._drop(*self._failed_in_background.pop())
        failures = [(logger, error) for logger in self._loggers if (error := _catch(act, logger)) is not None]
        for logger, error in failures:
            self._drop(logger, error)

    def _drop(self, logger: MetricsLogger, error: Exception) -> None:
        if logger not in self._loggers:  # it failed twice before anybody looked
            return
        self._loggers.remove(logger)
        _catch(lambda failed: failed.close(), logger)
        self._on_dropped(logger.name, error)


def _catch(act: Callable[[MetricsLogger], None], logger: MetricsLogger) -> Exception | None:
    try:
        act(logger)
    except Exception as error:  # noqa: BLE001  the one place, see above
        return error
    return None
