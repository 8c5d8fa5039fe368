"""Fewer samples of a long training: the longer it has run, the more iterations one sample stands for.

The first `SINGLE_ITERATIONS` are written one by one. From there on an interval is two iterations long, and twice as
long whenever the number of iterations has doubled, so that a run of any length has some thousand rows for each metric.
Where an interval ends depends on the number of the iteration alone, never on the clock: a resumed run has the same
intervals as one that never stopped.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from palaestra.core.episodes import EpisodeColumns, episode_lengths, episode_returns
from palaestra.core.metrics_logger import EpisodeSummary, Interval, Sample, ValueRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from palaestra.core.episodes import EpisodeResult

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
                yield self._summarize_many_episodes(sample)
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

    def _summarize_many_episodes(self, sample: Sample) -> Sample:
        if not sample.episodes:
            return sample
        if self._episode_count >= self._single_episodes:
            return replace(sample, episodes=(), episode_summary=summarize_episodes(sample.episodes))
        self._episode_count += len(sample.episodes)
        return sample


INFINITY = math.inf


class OpenInterval:
    """Means are running sums in the order of the iterations, so that a resumed run gets the same bits."""

    def __init__(self, first_step: int) -> None:
        self.first_step = first_step
        self.iterations = 0
        self._step = first_step
        self._at = 0.0
        self._metrics: dict[str, list[float]] = {}  # name -> count, total, min, max, nonfinite count
        self._timings: dict[str, list[float]] = {}
        self._episodes: list[float] = []  # as `_summarized` orders them; empty: none ended

    def add(self, sample: Sample) -> None:
        """One iteration. Its episodes are summarized."""
        self.iterations += 1
        self._step, self._at = sample.step, sample.at
        _add(self._metrics, sample.metrics)
        _add(self._timings, sample.timings)
        if sample.episodes:
            self._episodes = _merged(self._episodes, _summarized(sample.episodes))

    def sample(self) -> Sample:
        """What was added so far, as one sample."""
        ranges = {name: _range(entry) for part in (self._metrics, self._timings) for name, entry in part.items()}
        return Sample(
            step=self._step,
            metrics={name: _mean(entry) for name, entry in self._metrics.items()},
            timings={name: _mean(entry) for name, entry in self._timings.items()},
            at=self._at,
            interval=Interval(self.first_step, self.iterations, ranges),
            episode_summary=_summary(self._episodes) if self._episodes else None,
        )

    def capture(self) -> dict[str, Any]:
        """Plain data, for a checkpoint."""
        return {
            "first_step": self.first_step,
            "iterations": self.iterations,
            "step": self._step,
            "at": self._at,
            "metrics": {name: list(entry) for name, entry in self._metrics.items()},
            "timings": {name: list(entry) for name, entry in self._timings.items()},
            "episodes": list(self._episodes),
        }

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> OpenInterval:
        """From what `capture` gave."""
        interval = cls(int(saved["first_step"]))
        interval.iterations = int(saved["iterations"])
        interval._step, interval._at = int(saved["step"]), float(saved["at"])
        interval._metrics = {name: list(entry) for name, entry in saved["metrics"].items()}
        interval._timings = {name: list(entry) for name, entry in saved["timings"].items()}
        interval._episodes = list(saved["episodes"])
        return interval


def summarize_episodes(episodes: Sequence[EpisodeResult]) -> EpisodeSummary:
    return _summary(_summarized(episodes))


def _add(entries: dict[str, list[float]], values: Mapping[str, float]) -> None:
    for name, value in values.items():
        entry = entries.get(name)
        if entry is None:
            entry = entries[name] = [0, 0.0, INFINITY, -INFINITY, 0]
        if not math.isfinite(value):
            entry[4] += 1
            continue
        entry[0] += 1
        entry[1] += value
        if value < entry[2]:
            entry[2] = float(value)
        if value > entry[3]:
            entry[3] = float(value)


def _mean(entry: Sequence[float]) -> float:
    """Of the finite values; kept between the extremes, also where the sum is beyond all bounds."""
    count, total, low, high, _ = entry
    return min(max(total / count, low), high) if count else math.nan


def _range(entry: Sequence[float]) -> ValueRange:
    count, _, low, high, nonfinite_count = entry
    extremes = (low, high) if count else (math.nan, math.nan)
    return ValueRange(*extremes, int(count), int(nonfinite_count))


def _summarized(episodes: Sequence[EpisodeResult]) -> list[float]:
    """count, terminated; then of returns and of lengths: total, min, max."""
    returns, lengths = episode_returns(episodes), episode_lengths(episodes)
    terminated = sum(map(bool, _terminated_flags(episodes)))
    return [
        len(episodes),
        terminated,
        *(figure for values in (returns, lengths) for figure in (float(sum(values)), min(values), max(values))),
    ]


def _terminated_flags(episodes: Sequence[EpisodeResult]) -> Iterable[bool]:
    return episodes.terminated if isinstance(episodes, EpisodeColumns) else (one.terminated for one in episodes)


def _merged(old: list[float], new: list[float]) -> list[float]:
    if not old:
        return new
    count, terminated, *figures = (a + b for a, b in zip(old, new, strict=True))
    for low in (3, 6):
        figures[low - 2] = min(old[low], new[low])
        figures[low - 1] = max(old[low + 1], new[low + 1])
    return [count, terminated, *figures]


def _summary(figures: Sequence[float]) -> EpisodeSummary:
    count, terminated, returned, least, most, length, shortest, longest = figures
    return EpisodeSummary(
        episode_count=int(count),
        terminated_count=int(terminated),
        return_mean=returned / count,
        return_min=float(least),
        return_max=float(most),
        length_mean=length / count,
        length_min=int(shortest),
        length_max=int(longest),
    )
