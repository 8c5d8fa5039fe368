"""A short benchmark at the end of a search: whoever found a scheme sees at once what it is worth on this machine."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

from palaestra.apps.matmul import bench_table
from palaestra.apps.matmul.bench_config import BRIEF
from palaestra.apps.matmul.bench_store import BenchStore
from palaestra.apps.matmul.bench_worker import benchmark_apart
from palaestra.apps.matmul.field import Field
from palaestra.core.errors import PalaestraError
from palaestra.runs.identity import new_run_id

if TYPE_CHECKING:
    from palaestra.apps.matmul.archive import Discovery
    from palaestra.apps.matmul.bench_report import Benchmark
    from palaestra.loggers.fanout import Fanout
    from palaestra.runner.session import Events
    from palaestra.runs.directory import RunDirectory

SHORTEST = 2.0  # seconds: compiling alone takes about one
FOR_NUMBERS = frozenset({Field.ZT, Field.Z})


def first_look(entry: Discovery, directory: RunDirectory, journal: Events, sinks: Fanout, ends: float = inf) -> str:
    """What to tell the user, empty when there is nothing; a benchmark that fails takes nothing from the discovery.

    One that cannot be done before `ends` (of time.monotonic) is left to the user.
    """
    if entry.scheme.field not in FOR_NUMBERS:
        return ""
    left = ends - time.monotonic()
    if left < SHORTEST:
        return f"Not benchmarked: the time was up. To do it: palaestra bench {entry.fingerprint}"
    try:
        made = benchmark_apart(entry, BRIEF, new_run_id(), aloud=False, timeout=None if left == inf else left)
    except PalaestraError as error:
        return f"It could not be timed: {error}"
    file = BenchStore(directory.path.parent).add(made)
    journal.record("artifact.saved", file=str(file), kind="benchmark")
    sinks.table_made(bench_table.NAME, bench_table.COLUMNS, bench_table.table_rows(made))
    return summary(made)


def summary(made: Benchmark) -> str:
    cells = [
        f"{cell.dtype}{' ' + cell.detail if cell.detail else ''} {cell.size}: algorithm {cell.algorithm_gain:.2f} x"
        for cell in made.cells
    ]
    return f"First look, {made.threads} thread: {'; '.join(cells)}. More: palaestra bench {made.discovery}"
