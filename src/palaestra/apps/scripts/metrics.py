"""Turns messages of a script into samples for the metrics store and figures for the status."""

from __future__ import annotations

from collections import deque
from math import isfinite
from typing import TYPE_CHECKING, Any

from palaestra.core.episodes import EpisodeResult
from palaestra.core.metrics_logger import Sample
from palaestra.loggers.samples import EPISODIC_LENGTH, EPISODIC_RETURN

if TYPE_CHECKING:
    from collections.abc import Sequence

RECENT_EPISODES = 100
TIMINGS = {"charts/SPS", "charts/steps_per_second"}
RATE_SECONDS = 5.0


class ScriptMetrics:
    """Step, episode and rate counters of a script's run; converts messages to samples."""

    def __init__(self) -> None:
        self.step = 0
        self.episodes = 0
        self.not_finite: set[str] = set()  # tags whose NaN or infinite values were dropped
        self._recent: deque[float] = deque(maxlen=RECENT_EPISODES)
        self._heartbeats: deque[tuple[float, int]] = deque()
        self._own_tags: set[str] = set()  # scalars that the script logs itself

    def take(self, messages: Sequence[list[Any]]) -> list[Sample]:
        """Converts messages to samples; consecutive messages of one step become one sample."""
        samples: list[Sample] = []
        for kind, *rest in messages:
            if kind == "heartbeat":
                self._heartbeat(int(rest[0]), float(rest[1]))
            elif kind == "scalar":
                self._add(samples, self._scalar(*rest))
            elif kind == "episode":
                self._add(samples, self._episode(*rest))
            elif kind in {"saved", "ended"}:
                self.step = max(self.step, int(rest[2]))
        return samples

    @property
    def average_return(self) -> float | None:
        return sum(self._recent) / len(self._recent) if self._recent else None

    @property
    def steps_per_second(self) -> float:
        """Mean over the last RATE_SECONDS."""
        if len(self._heartbeats) < 2:
            return 0.0
        (started, first), (ended, last) = self._heartbeats[0], self._heartbeats[-1]
        return max(0.0, (last - first) / max(ended - started, 1e-9))

    def summary(self) -> dict[str, float]:
        recent = {} if self.average_return is None else {"episodic_return": self.average_return}
        return {"steps_per_second": self.steps_per_second, "episodes": float(self.episodes), **recent}

    def _heartbeat(self, step: int, at: float) -> None:
        self.step = max(self.step, step)
        self._heartbeats.append((at, self.step))
        while at - self._heartbeats[0][0] > RATE_SECONDS and len(self._heartbeats) > 2:
            self._heartbeats.popleft()

    def _scalar(self, tag: str, value: float, step: int | None, at: float) -> Sample | None:
        if not isfinite(value):
            self.not_finite.add(tag)
            return None
        self._own_tags.add(tag)
        step = self.step if step is None else max(0, step)
        self.step = max(self.step, step)
        if tag in TIMINGS:
            return Sample(step, {}, {tag: value}, at=at)
        return Sample(step, {tag: value}, at=at)

    def _episode(self, index: int, total: float, length: int, terminated: bool, step: int, at: float) -> Sample | None:
        self.episodes += 1
        step = self.step if step < 0 else step
        self.step = max(self.step, step)
        if not isfinite(total):
            self.not_finite.add("the return of an episode")
            return None
        self._recent.append(total)
        ended = EpisodeResult(None, total, int(length), bool(terminated), int(index), step)
        metrics = {} if EPISODIC_RETURN in self._own_tags else {EPISODIC_RETURN: total, EPISODIC_LENGTH: float(length)}
        return Sample(step, metrics, episodes=(ended,), at=at)

    def _add(self, samples: list[Sample], new: Sample | None) -> None:
        if new is None:
            return
        if not samples or samples[-1].step != new.step:
            samples.append(new)
            return
        last = samples[-1]
        samples[-1] = Sample(
            step=last.step,
            metrics={**last.metrics, **new.metrics},
            timings={**last.timings, **new.timings},
            episodes=(*last.episodes, *new.episodes),
            at=new.at,
        )
