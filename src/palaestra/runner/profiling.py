"""`palaestra train … --profile`: where the time of a few iterations goes, as a trace and as a table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palaestra.core.reports import IterationReport

SKIPPED = 2  # the first iterations warm up: kernels are chosen, caches filled
PROFILED = 3
TRACE_NAME = "profile_trace.json"


def profiled(reports: Iterator[IterationReport], artifacts: Path) -> Iterator[IterationReport]:
    """Passes `reports` on and profiles iterations 3 to 5, including what the consumer does in between.

    The trace (for chrome://tracing or Perfetto) goes to `artifacts`, the ten most expensive operations to
    stderr. A training that ends earlier is profiled up to its end.
    """
    for _ in range(SKIPPED):
        report = next(reports, None)
        if report is None:
            return
        yield report
    recorder = profile(activities=_activities())
    recorder.start()
    try:
        for _, report in zip(range(PROFILED), reports, strict=False):
            yield report
    finally:
        recorder.stop()
        _write(recorder, artifacts)
    yield from reports


def top_ten(recorder: profile) -> str:
    is_cuda = torch.cuda.is_available()
    order = "self_cuda_time_total" if is_cuda else "self_cpu_time_total"
    return str(recorder.key_averages().table(sort_by=order, row_limit=10))


def _write(recorder: profile, artifacts: Path) -> None:
    artifacts.mkdir(parents=True, exist_ok=True)
    trace = artifacts / TRACE_NAME
    recorder.export_chrome_trace(str(trace))
    print(top_ten(recorder), file=sys.stderr)
    print(f"The profile of {PROFILED} iterations is in {trace}.", file=sys.stderr)


def _activities() -> list[ProfilerActivity]:
    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
