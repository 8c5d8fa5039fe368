"""Reading and writing `metrics.db`, and the cache of curves for charts."""

from __future__ import annotations

from palaestra.runs.metrics.reader import Bucket, MetricsReader, Point, TailPoint
from palaestra.runs.metrics.writer import MetricsWriter

__all__ = ["Bucket", "MetricsReader", "MetricsWriter", "Point", "TailPoint"]
