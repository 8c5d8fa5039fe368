"""metrics.db, which every run writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.runs.metrics_writer import MetricsWriter

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.contracts.sink import Sample


class MetricsSink:
    name = "metrics"

    def __init__(self, path: Path) -> None:
        self._writer = MetricsWriter(path)

    def write(self, sample: Sample) -> None:
        self._writer.write(sample)

    def rewind(self, step: int) -> None:
        self._writer.rewind(step)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
