"""Where numbers go. A sink may fail; a run may not fail because of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.contracts.episodes import EpisodeResult


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


class Sink(Protocol):
    name: str

    def write(self, sample: Sample) -> None:
        """Take one sample. Must return at once; may raise, and is then named once and dropped."""
        ...

    def flush(self) -> None:
        """Make durable what was written; called before every checkpoint."""
        ...

    def close(self) -> None: ...
