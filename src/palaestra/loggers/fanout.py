"""One handle for all sinks. A sink that fails is named once and dropped; the run never notices.

This is the one place in the house that may swallow any exception: sinks are a luxury, and some of them are
written by strangers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.sink import Sample, Sink
    from palaestra.loggers.downsampling import Downsampler


@runtime_checkable
class Rewindable(Protocol):
    """A sink that can forget what came after a step, because the run goes on from there."""

    def rewind(self, step: int) -> None: ...


@runtime_checkable
class DropsIntervals(Protocol):
    """A sink that can tell intervals from single samples, and forget the last one, because it will be filled again."""

    def drop_intervals(self, first_step: int) -> None:
        """Forget the intervals that reach `first_step`; samples of single moments stay."""
        ...


@runtime_checkable
class FlushesMeanwhile(Protocol):
    """A sink whose `flush` waits for a disk."""

    def begin_flush(self) -> Callable[[], None]:
        """What makes durable all that was written so far; another thread may call it while the sink is used."""
        ...


@runtime_checkable
class HearsOfCheckpoints(Protocol):
    def checkpoint_saved(self, checkpoint: Checkpoint) -> None: ...


@runtime_checkable
class TakesTables(Protocol):
    def table_made(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None: ...


@runtime_checkable
class TakesFiles(Protocol):
    """A sink that keeps files: `kind` is what they are, `name` of which one they are a new version."""

    def files_made(self, name: str, kind: str, files: Sequence[Path]) -> None: ...


@runtime_checkable
class TakesNotes(Protocol):
    def note(self, text: str) -> None: ...


class Fanout:
    """Sinks side by side. `on_dropped(name, error)` is called exactly once for a sink that fails.

    With a `downsampler`, sinks get what it gives; only those that were added with `every_sample` get all.
    """

    def __init__(self, on_dropped: Callable[[str, Exception], None], downsampler: Downsampler | None = None) -> None:
        self._on_dropped = on_dropped
        self._downsampler = downsampler
        self._sinks: list[Sink] = []
        self._every_sample: list[Sink] = []  # of the sinks, those that get all samples
        self._failed_meanwhile: list[tuple[Sink, Exception]] = []  # by whatever thread

    @property
    def names(self) -> list[str]:
        return [sink.name for sink in self._sinks]

    def add(self, name: str, make: Callable[[], Sink], *, every_sample: bool = False) -> None:
        """Make a sink and take it in; one that cannot even be made counts as dropped."""
        try:
            sink = make()
        except Exception as error:  # noqa: BLE001  the one place, see above
            self._on_dropped(name, error)
            return
        self._sinks.append(sink)
        if every_sample:
            self._every_sample.append(sink)

    def write(self, *samples: Sample) -> None:
        """To each sink in a row: between two samples it does nothing else, and is the quicker for it."""
        fewer = samples if self._downsampler is None else tuple(self._downsampler.take(samples))
        self._write(samples, fewer)

    def flush(self) -> None:
        self._each(lambda sink: sink.flush())

    def begin_flush(self) -> Callable[[], None]:
        """`flush`, but for what waits for a disk: that is left to the function returned, for another thread."""
        waits: list[tuple[Sink, Callable[[], None]]] = []

        def begin(sink: Sink) -> None:
            if isinstance(sink, FlushesMeanwhile):
                waits.append((sink, sink.begin_flush()))
            else:
                sink.flush()

        def finish() -> None:
            for sink, wait in waits:
                error = _failure_of(lambda _: wait(), sink)  # noqa: B023  called before the next turn
                if error is not None:
                    self._failed_meanwhile.append((sink, error))

        self._each(begin)
        return finish

    def rewind(self, step: int) -> None:
        """Forget everything after `step`; call it after loading the state to go on from, before the first write."""
        self._each(lambda sink: sink.rewind(step) if isinstance(sink, Rewindable) else None)
        first_step = self._downsampler.open_since if self._downsampler is not None else None
        if first_step is not None:
            self._each(lambda sink: sink.drop_intervals(first_step) if isinstance(sink, DropsIntervals) else None)

    def capture(self) -> dict[str, Any]:
        """What was taken but not written yet, as plain data for a checkpoint."""
        return {} if self._downsampler is None else self._downsampler.capture()

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Call it before `rewind`. Checkpoints from before there was a downsampler have nothing for it."""
        if self._downsampler is not None and saved:
            self._downsampler.restore(saved)

    def checkpoint_saved(self, checkpoint: Checkpoint) -> None:
        self._each(lambda sink: sink.checkpoint_saved(checkpoint) if isinstance(sink, HearsOfCheckpoints) else None)

    def table_made(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A small table that is complete, such as a benchmark's."""
        self._each(lambda sink: sink.table_made(name, columns, rows) if isinstance(sink, TakesTables) else None)

    def files_made(self, name: str, kind: str, files: Sequence[Path]) -> None:
        self._each(lambda sink: sink.files_made(name, kind, files) if isinstance(sink, TakesFiles) else None)

    def note(self, text: str) -> None:
        """A line for the person who watches; never part of the metrics."""
        self._each(lambda sink: sink.note(text) if isinstance(sink, TakesNotes) else None)

    def close(self) -> None:
        """Close every sink once; a second call does nothing."""
        if self._downsampler is not None:
            self._write((), tuple(self._downsampler.finish()))
        self._each(lambda sink: sink.close())
        self._sinks.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, samples: Sequence[Sample], fewer: Sequence[Sample]) -> None:
        def write_all(sink: Sink) -> None:
            for sample in samples if sink in self._every_sample else fewer:
                sink.write(sample)

        self._each(write_all)

    def _each(self, act: Callable[[Sink], None]) -> None:
        while self._failed_meanwhile:
            self._drop(*self._failed_meanwhile.pop())
        failures = [(sink, error) for sink in self._sinks if (error := _failure_of(act, sink)) is not None]
        for sink, error in failures:
            self._drop(sink, error)

    def _drop(self, sink: Sink, error: Exception) -> None:
        if sink not in self._sinks:  # it failed twice before anybody looked
            return
        self._sinks.remove(sink)
        _failure_of(lambda failed: failed.close(), sink)
        self._on_dropped(sink.name, error)


def _failure_of(act: Callable[[Sink], None], sink: Sink) -> Exception | None:
    try:
        act(sink)
    except Exception as error:  # noqa: BLE001  the one place, see above
        return error
    return None
