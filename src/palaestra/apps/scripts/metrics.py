"""The script's messages as numbers: samples of the metrics store, and the figures of the status."""

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
    """Samples in the order of steps as they come; nothing is kept that was handed out."""

    def __init__(self) -> None:
        self.step = 0
        self.episodes = 0
        self.not_finite: set[str] = set()  # tags of numbers that could not be kept
        self._recent: deque[float] = deque(maxlen=RECENT_EPISODES)
        self._beats: deque[tuple[float, int]] = deque()
        self._own_tags: set[str] = set()  # what the script logs itself

    def take(self, messages: Sequence[list[Any]]) -> list[Sample]:
        """One sample for each run of messages that are of the same step."""
        samples: list[Sample] = []
        for kind, *rest in messages:
            if kind == "beat":
                self._beat(int(rest[0]), float(rest[1]))
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
        """Over the last seconds."""
        if len(self._beats) < 2:
            return 0.0
        (began, first), (ended, last) = self._beats[0], self._beats[-1]
        return max(0.0, (last - first) / max(ended - began, 1e-9))

    def summary(self) -> dict[str, float]:
        reached = {} if self.average_return is None else {"episodic_return": self.average_return}
        return {"steps_per_second": self.steps_per_second, "episodes": float(self.episodes), **reached}

    def _beat(self, step: int, at: float) -> None:
        self.step = max(self.step, step)
        self._beats.append((at, self.step))
        while at - self._beats[0][0] > RATE_SECONDS and len(self._beats) > 2:
            self._beats.popleft()

    def _scalar(self, tag: str, value: float, step: int | None, at: float) -> Sample | None:
        if not isfinite(value):
            self.not_finite.add(tag)
            return None
        self._own_tags.add(tag)
        place = self.step if step is None else max(0, step)
        self.step = max(self.step, place)
        if tag in TIMINGS:
            return Sample(place, {}, {tag: value}, at=at)
        return Sample(place, {tag: value}, at=at)

    def _episode(self, index: int, total: float, length: int, terminated: bool, step: int, at: float) -> Sample | None:
        self.episodes += 1
        place = self.step if step < 0 else step
        self.step = max(self.step, place)
        if not isfinite(total):
            self.not_finite.add("the return of an episode")
            return None
        self._recent.append(total)
        ended = EpisodeResult(None, total, int(length), bool(terminated), int(index), place)
        metrics = {} if EPISODIC_RETURN in self._own_tags else {EPISODIC_RETURN: total, EPISODIC_LENGTH: float(length)}
        return Sample(place, metrics, episodes=(ended,), at=at)

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
