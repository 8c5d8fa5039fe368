"""The protocol of metrics loggers (SQLite, console, TensorBoard, CSV, W&B) and the samples they write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.core.episodes import EpisodeResult


class ValueRange(NamedTuple):
    """The values of one metric over an interval; NaN and infinities are only counted."""

    min: float  # NaN where no value is finite
    max: float
    finite_count: int
    nonfinite_count: int = 0


@dataclass(frozen=True)
class Interval:
    """Consecutive iterations that one sample stands for: its metrics are means, its step is that of the last one."""

    first_step: int  # of the first iteration
    iterations: int
    ranges: dict[str, ValueRange]  # of every metric and every timing


class EpisodeSummary(NamedTuple):
    """Episodes that are written down together."""

    episode_count: int
    terminated_count: int  # the others were cut by a time limit
    return_mean: float
    return_min: float
    return_max: float
    length_mean: float
    length_min: int
    length_max: int


@dataclass(frozen=True)
class Sample:
    """The scalars of one moment.

    `metrics` are reproducible: the same seed gives the same rows. `timings` (steps per second, seconds)
    are not, and are kept apart so that a resumed run can be compared with one that never stopped.
    """

    step: int
    metrics: dict[str, float]
    timings: dict[str, float] = field(default_factory=dict)
    episodes: Sequence[EpisodeResult] = ()
    at: float = 0.0
    iteration: int | None = None  # of the training, from 1; a sample without one is never combined with others
    interval: Interval | None = None  # set where this sample stands for several iterations
    episode_summary: EpisodeSummary | None = None  # in place of `episodes`, where there were too many


class MetricsLogger(Protocol):
    name: str

    def write(self, sample: Sample) -> None:
        """Take one sample. Must return at once; may raise, and is then named once and dropped."""
        ...

    def flush(self) -> None:
        """Make durable what was written; called before every checkpoint."""
        ...

    def close(self) -> None: ...
