"""What an evaluation run keeps in its own directory: a line per batch, curves, and statistics over all batches.

The same batches are also written to the run whose checkpoint is evaluated (`palaestra.evaluation.records`); here they
are those of one evaluation only, numbered from 1.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING, Any, Self

from palaestra.core.clock import SystemClock
from palaestra.core.errors import RunFailed
from palaestra.core.metrics_logger import Sample
from palaestra.evaluation.curves import Curves
from palaestra.evaluation.summary import add_batch, describe, only_writer, read_batches
from palaestra.loggers.samples import EVALUATED_RETURN, evaluation_sample_of
from palaestra.rendering.hud import evaluation_line
from palaestra.runs.metrics_writer import MetricsWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from palaestra.core.clock import Clock
    from palaestra.core.evaluation import SuiteReport
    from palaestra.runs.directory import RunDirectory


class EvaluationResults:
    """A run that is started again goes on behind the batches that it has."""

    def __init__(self, directory: RunDirectory, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or SystemClock()
        self._stack = ExitStack()
        self._batches = read_batches(directory)
        self._statistics = Statistics(self._batches)

    def __enter__(self) -> Self:
        self._metrics = self._stack.enter_context(MetricsWriter(self._directory.metrics_file))
        self._curves = Curves(self._directory, self._clock)
        self._stack.callback(self._curves.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def batch_count(self) -> int:
        return len(self._batches)

    @property
    def steps(self) -> int:
        """Environment steps of all batches."""
        return int(self._batches[-1]["steps"]) if self._batches else 0

    @property
    def statistics(self) -> dict[str, float]:
        """Of all episodes of all batches; empty before the first."""
        return self._statistics.figures()

    def add(self, report: SuiteReport, epoch: int) -> dict[str, Any]:
        """Write one batch down and print its line; gives the entry as written."""
        entry = self._entry(report, epoch)
        try:
            with only_writer(self._directory):
                add_batch(self._directory, self._batches, entry)
                self._batches.append({"batch": len(self._batches) + 1, **entry})
                self._statistics.add(entry)
                sample = _sample(report, entry)
                self._metrics.write(sample)
                self._curves.draw(sample)
        except OSError as error:
            raise RunFailed(
                f"A batch could not be written to {self._directory.path}: {error.strerror}.",
                "Make room on that disk.",
            ) from error
        print(evaluation_line(self._batches), file=sys.stderr, flush=True)
        return self._batches[-1]

    def _entry(self, report: SuiteReport, epoch: int) -> dict[str, Any]:
        plan = report.reports[0].plan
        simulations = [
            {"simulation": one.plan.simulation, "category": one.plan.category, **describe(one)}
            for one in report.reports
        ]
        return {
            "checkpoint": report.checkpoint,
            "epoch": epoch,
            **describe(report),
            "steps": self.steps + sum(episode.length for episode in report.episodes),
            "suite": report.suite,
            "seed": plan.seeds[0],
            "deterministic": plan.deterministic,
            "complete": report.complete,
            "simulations": simulations,
            "at": self._clock.now(),
        }


@dataclass
class Moments:
    """Count, mean, sum of squared deviations, lowest and highest of returns that come group by group."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = inf
    high: float = -inf

    def add(self, group: Mapping[str, Any]) -> None:
        """`group` has episodes, mean, std, min and max, as `describe` gives them; a file says "NaN" in words."""
        mean, std, low, high = (float(group[key]) for key in ("mean", "std", "min", "max"))
        count = group["episodes"]
        difference, total = mean - self.mean, self.count + count
        self.squares += count * std**2 + difference**2 * self.count * count / total
        self.mean += difference * count / total
        self.count, self.low, self.high = total, min(self.low, low), max(self.high, high)


class Statistics:
    """Of all episodes so far. The mean is that of the simulations' means, as a score is."""

    def __init__(self, batches: Sequence[Mapping[str, Any]]) -> None:
        self._all = Moments()
        self._simulations: dict[str, Moments] = {}
        for batch in batches:
            self.add(batch)

    def add(self, batch: Mapping[str, Any]) -> None:
        for part in batch["simulations"]:
            self._all.add(part)
            self._simulations.setdefault(part["simulation"], Moments()).add(part)

    def figures(self) -> dict[str, float]:
        """Empty before the first batch."""
        if not self._all.count:
            return {}
        means = [one.mean for one in self._simulations.values()]
        return {
            "mean": sum(means) / len(means),
            "std": sqrt(self._all.squares / self._all.count),
            "min": self._all.low,
            "max": self._all.high,
            "episodes": float(self._all.count),
        }


def _sample(report: SuiteReport, entry: Mapping[str, Any]) -> Sample:
    """At the environment steps that this evaluation has played so far."""
    sample = evaluation_sample_of(report, entry["steps"], entry["at"])
    spread = {f"{EVALUATED_RETURN}_{name}": float(entry[name]) for name in ("min", "max", "std")}
    return Sample(sample.step, {**sample.metrics, **spread}, sample.timings, at=sample.at)
