"""The value of a finished or running trial, read from its run directory."""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING

from palaestra.core.errors import NotFound, UsageError, did_you_mean
from palaestra.loggers.samples import EPISODIC_RETURN, EVALUATED_RETURN
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record

if TYPE_CHECKING:
    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.metrics.reader import Point

SCORE, RETURN = "score", "return"
SERIES = {SCORE: EVALUATED_RETURN, RETURN: EPISODIC_RETURN}
TENTHS = 10


def check_metric(metric: str) -> str:
    """Validates a metric; a full name has a slash, and nothing more is known before the first run."""
    if metric not in SERIES and "/" not in metric:
        hint = did_you_mean(metric, SERIES) or "Known: score, return, or a full name such as charts/episodic_length."
        raise UsageError(f"No metric named '{metric}'.", hint)
    return metric


def value_of(directory: RunDirectory, metric: str) -> float | None:
    """The last value; for `return`, the mean over the last episodes in the run's status. None for NaN."""
    if metric == RETURN:
        value = read_record(directory).summary.get("episodic_return")
    else:
        points = points_of(directory, metric)
        value = points[-1].value if points else None
    return value if value is not None and math.isfinite(value) else None


def curve_of(directory: RunDirectory, metric: str, total_steps: int) -> dict[int, float]:
    """The metric at each completed tenth of the steps, without the end.

    A tenth without a new value has the previous one; tenths before the first value are left out.
    """
    points = points_of(directory, metric)
    reached = max(read_record(directory).agent_step, points[-1].step if points else 0)
    curve = {}
    for tenth in range(1, TENTHS):
        mark = total_steps * tenth / TENTHS
        before = [point.value for point in points if point.step <= mark and math.isfinite(point.value)]
        if reached >= mark and before:
            curve[tenth] = before[-1]
    return curve


def points_of(directory: RunDirectory, metric: str) -> list[Point]:
    """Empty for a run that has just started."""
    try:
        with closing(MetricsReader(directory.metrics_file)) as reader:
            return reader.series(SERIES.get(metric, metric))
    except NotFound:
        return []
