"""Fewer samples of a long training: the longer it has run, the more iterations one sample stands for.

The first `SINGLE_ITERATIONS` are written one by one. From there on an interval is two iterations long, and twice as
long whenever the number of iterations has doubled, so that a run of any length has some thousand rows for each metric.
Where an interval ends depends on the number of the iteration alone, never on the clock: a resumed run has the same
intervals as one that never stopped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from palaestra.loggers.open_interval import OpenInterval, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from palaestra.core.metrics_logger import Sample

SINGLE_ITERATIONS = 2048  # a power of two
SINGLE_EPISODES = 50_000


def interval_length(iteration: int, single_iterations: int = SINGLE_ITERATIONS) -> int:
    """How many iterations are combined where this one (counted from 1) is among them; they are aligned to multiples."""
    return 1 << ((iteration - 1) // single_iterations).bit_length()


class Downsampler:
    def __init__(
        self,
        *,
        is_on: bool = True,
        single_iterations: int = SINGLE_ITERATIONS,  # a power of two
        single_episodes: int = SINGLE_EPISODES,
    ) -> None:
        self._is_on = is_on
        self._single_iterations = single_iterations
        self._single_episodes = single_episodes
        self._open: OpenInterval | None = None
        self._episode_count = 0  # written down singly

    @property
    def open_since(self) -> int | None:
        """The step at which the interval begins that is being filled; None when there is none."""
        return None if self._open is None else self._open.first_step

    def take(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """What is to be written of them, in their order."""
        for sample in samples:
            if sample.iteration is None:
                yield sample
            elif not self._is_on:
                yield from self.finish()  # of a session that combined them
                yield sample
            elif (length := interval_length(sample.iteration, self._single_iterations)) == 1:
                yield self._with_few_episodes(sample)
            else:
                self._add(sample)
                if sample.iteration % length == 0:
                    yield from self.finish()

    def finish(self) -> Iterator[Sample]:
        """The interval that is open, as far as it is filled."""
        if self._open is not None:
            finished, self._open = self._open.sample(), None
            yield finished

    def capture(self) -> dict[str, Any]:
        """Plain data, for a checkpoint."""
        return {"episode_count": self._episode_count, "open": None if self._open is None else self._open.capture()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._episode_count = int(saved["episode_count"])
        self._open = None if saved["open"] is None else OpenInterval.restored(saved["open"])

    def _add(self, sample: Sample) -> None:
        if self._open is None:
            self._open = OpenInterval(sample.step)
        self._open.add(sample)

    def _with_few_episodes(self, sample: Sample) -> Sample:
        if not sample.episodes:
            return sample
        if self._episode_count >= self._single_episodes:
            return replace(sample, episodes=(), episode_summary=summary_of(sample.episodes))
        self._episode_count += len(sample.episodes)
        return sample
