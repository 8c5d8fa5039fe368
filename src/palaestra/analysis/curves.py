"""Learning curves of groups of runs: the mean, its confidence interval, and the minimum and maximum of all points.

All curves of a metric share one grid of cells. Each cell keeps the minimum and maximum of its points, so a spike of a
single point is still there when a million points have become two hundred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palaestra.analysis.statistics import Values, mean_band
from palaestra.core.errors import NotFound, did_you_mean
from palaestra.runs.metrics.reader import MetricsReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.analysis.targets import Group
    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.metrics.reader import Bucket

CELLS = 200
DEFAULT_METRICS = ("charts/episodic_return", "eval/episodic_return")  # drawn unless others are named


@dataclass(frozen=True)
class Curve:
    label: str
    runs: tuple[str, ...]  # names of those that have the metric
    steps: tuple[float, ...]  # the middle of each cell
    mean: tuple[float, ...]  # over runs
    low: tuple[float | None, ...]  # 95 % interval of that mean; None where one run is left
    high: tuple[float | None, ...]
    least: tuple[float, ...]  # of all points of all runs in the cell
    most: tuple[float, ...]
    counts: tuple[int, ...]  # runs that have reached the cell


@dataclass(frozen=True)
class Chart:
    metric: str
    curves: tuple[Curve, ...]


def make_charts(groups: Sequence[Group], metrics: Sequence[str] = ()) -> tuple[Chart, ...]:
    """One chart for each metric, by default the default metrics that exist. Refuses a name that no run has."""
    known = {name for group in groups for directory in _directories(group) for name in _names(directory)}
    for metric in metrics:
        if metric not in known:
            hint = did_you_mean(metric, known) or f"Known: {', '.join(sorted(known)) or 'none yet'}."
            raise NotFound(f"No metric named '{metric}' in these runs.", hint)
    wanted = list(dict.fromkeys(metrics)) or [name for name in DEFAULT_METRICS if name in known]
    return tuple(chart for name in wanted if (chart := _chart(name, groups)).curves)


def _chart(metric: str, groups: Sequence[Group]) -> Chart:
    spans = [span for group in groups for one in _directories(group) if (span := _span(one, metric)) is not None]
    if not spans:
        return Chart(metric, ())
    grid = Grid(min(first for first, _ in spans), max(last for _, last in spans))
    return Chart(metric, tuple(curve for group in groups if (curve := _curve(metric, group, grid)) is not None))


@dataclass(frozen=True)
class Grid:
    """Steps from `first` to `last`, both included, in cells of equal width."""

    first: int
    last: int

    @property
    def cells(self) -> int:
        return min(CELLS, self.last - self.first + 1)

    @property
    def width(self) -> float:
        return (self.last - self.first + 1) / self.cells

    @property
    def middles(self) -> Values:
        return np.asarray(self.first - 0.5 + self.width * (np.arange(self.cells) + 0.5), np.float64)

    def cell(self, step: int) -> int:
        return min(int((step - self.first) / self.width), self.cells - 1)

    def bucket_count(self, first: int, last: int) -> int:
        """The number of buckets for these steps, so that none is wider than a cell."""
        return max(1, math.ceil((last - first + 1) / self.width))


@dataclass(frozen=True)
class RunCurve:
    """One run on the grid; NaN before its first and after its last point."""

    mean: Values  # [cells], straight lines where a cell has no point
    least: Values
    most: Values


def resample_buckets(buckets: Sequence[Bucket], grid: Grid) -> RunCurve:
    """`buckets` in the order of their steps, at least one, all with a finite mean."""
    middles = [(one.step_first + one.step_last) / 2 for one in buckets]
    mean = np.interp(grid.middles, middles, [one.mean for one in buckets])
    mean[: grid.cell(buckets[0].step_first)] = np.nan
    mean[grid.cell(buckets[-1].step_last) + 1 :] = np.nan
    least, most = mean.copy(), mean.copy()
    for one in buckets:
        covered = slice(grid.cell(one.step_first), grid.cell(one.step_last) + 1)
        least[covered] = np.minimum(least[covered], one.min)
        most[covered] = np.maximum(most[covered], one.max)
    return RunCurve(mean, least, most)


def _curve(metric: str, group: Group, grid: Grid) -> Curve | None:
    run_curves, names = [], []
    for target in group.targets:
        assert target.directory is not None, "groups of runs have directories"
        buckets = _buckets(target.directory, metric, grid)
        if buckets:
            run_curves.append(resample_buckets(buckets, grid))
            names.append(target.run_name)
    if not run_curves:
        return None
    means = np.stack([run_curve.mean for run_curve in run_curves])
    held = np.isfinite(means).any(axis=0)
    means = means[:, held]
    low, high = mean_band(means)
    return Curve(
        group.label,
        tuple(names),
        tuple(grid.middles[held].tolist()),
        tuple(np.nanmean(means, axis=0).tolist()),
        _with_none(low),
        _with_none(high),
        tuple(np.nanmin(np.stack([run_curve.least for run_curve in run_curves])[:, held], axis=0).tolist()),
        tuple(np.nanmax(np.stack([run_curve.most for run_curve in run_curves])[:, held], axis=0).tolist()),
        tuple(np.isfinite(means).sum(axis=0).tolist()),
    )


def _buckets(directory: RunDirectory, metric: str, grid: Grid) -> list[Bucket]:
    span = _span(directory, metric)
    if span is None:
        return []
    with MetricsReader(directory.metrics_file) as reader:
        found = reader.buckets(metric, grid.bucket_count(*span), *span)
    return [one for one in found if one.point_count and math.isfinite(one.min) and math.isfinite(one.max)]


def _span(directory: RunDirectory, metric: str) -> tuple[int, int] | None:
    """First and last step; None when the run does not have the metric, or no metrics at all."""
    try:
        with MetricsReader(directory.metrics_file) as reader:
            found = reader.buckets(metric, 1)
    except NotFound:
        return None
    return (found[0].step_first, found[0].step_last) if found else None


def _names(directory: RunDirectory) -> list[str]:
    try:
        with MetricsReader(directory.metrics_file) as reader:
            return reader.names()
    except NotFound:
        return []


def _directories(group: Group) -> list[RunDirectory]:
    return [target.directory for target in group.targets if target.directory is not None]


def _with_none(values: Values) -> tuple[float | None, ...]:
    return tuple(float(value) if np.isfinite(value) else None for value in values)
