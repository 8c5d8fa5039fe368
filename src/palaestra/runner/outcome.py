"""How a training ended, as its caller learns it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record

if TYPE_CHECKING:
    from palaestra.core.run import RunRecord
    from palaestra.runs.directory import RunDirectory


@dataclass(frozen=True)
class TrainOutcome:
    record: RunRecord
    directory: RunDirectory
    exit_code: int
    metrics: dict[str, float]  # the last value of each; reproducible, so without timings
    rank: int = 0  # of the process that tells it; only the leader's has metrics


def outcome_on_disk(directory: RunDirectory, exit_code: int) -> TrainOutcome:
    return TrainOutcome(read_record(directory), directory, exit_code, last_metrics(directory))


def last_metrics(directory: RunDirectory) -> dict[str, float]:
    with closing(MetricsReader(directory.metrics_file)) as reader:
        last = {name: reader.last(name) for name in reader.names(timings=False)}
    return {name: point.value for name, point in last.items() if point is not None}
