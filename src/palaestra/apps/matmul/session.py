"""What runs of the flip search and of the agent share: result, loggers, status at the end, archive, brief benchmark."""

from __future__ import annotations

import logging
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING

from palaestra.apps.matmul.benchmark import wandb
from palaestra.apps.matmul.benchmark.report import BenchStore
from palaestra.apps.matmul.benchmark.worker import benchmark_in_subprocess
from palaestra.apps.matmul.config import BRIEF
from palaestra.apps.matmul.schemes.archive import Archive
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.checkpoints.log import LOG_NAME, SCHEMA_VERSION, LogEntry, entry_fields, read_log
from palaestra.config.loggers import LoggersConfig
from palaestra.core.errors import DamagedFile, PalaestraError
from palaestra.loggers.build import build_loggers
from palaestra.loggers.status import RunHeader
from palaestra.runner.signals import StopNow, exit_code_of
from palaestra.runs.files import write_json
from palaestra.runs.identity import new_run_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from palaestra.apps.matmul.benchmark.report import Benchmark
    from palaestra.apps.matmul.config import SearchLoggersConfig
    from palaestra.apps.matmul.schemes.archive import Discovery, Provenance
    from palaestra.apps.matmul.schemes.verification import VerifiedFactorization
    from palaestra.loggers.fanout import LoggerFanout
    from palaestra.runner.session import Events, RunSession
    from palaestra.runner.signals import StopRequest
    from palaestra.runs.directory import RunDirectory


logger = logging.getLogger(__name__)

MIN_FINISH_SECONDS = 2.0  # for the end of a session whose search took all its time
MAX_LOG_ENTRIES = 1000  # of a long search the newest are logged
ARTIFACT, KIND = "discovery", "algorithm"  # name and type of the W&B artifact
MIN_BENCHMARK_SECONDS = 2.0  # compiling alone takes about one
NUMERIC_FIELDS = frozenset({Field.ZT, Field.Z})


@dataclass(frozen=True)
class SearchResult:
    """Result of one session of a search."""

    run: str
    name: str
    field: str  # of the best scheme
    rank: int
    known: int | None
    comparison: str
    flips: int
    seconds: float
    fingerprint: str
    is_new: bool  # to this archive
    file: str  # in the archive; empty if it is no better than the naive scheme
    exit_code: int
    note: str = ""
    unit: str = "flips"  # of `flips`: an agent makes moves


@contextmanager
def record_end(session: RunSession, stop: StopRequest) -> Iterator[None]:
    """Records how the search in the block ends: finished, cancelled or failed. A second signal aborts like Ctrl-C."""
    try:
        yield
    except StopNow as error:
        session.cancelled(str(error), error.exit_code)
        raise KeyboardInterrupt from error
    except BaseException as error:
        session.failed(error, error.exit_code if isinstance(error, PalaestraError) else 1)
        raise
    if stop.signal is None:
        session.finished()
    else:
        session.cancelled(signal.Signals(stop.signal).name, exit_code_of(stop.signal))


def open_loggers(config: SearchLoggersConfig, session: RunSession, settings: Mapping[str, Any]) -> LoggerFanout:
    """The loggers of a run; one that fails is reported in log and journal, and the search continues without it."""

    def on_dropped(name: str, error: Exception) -> None:
        logger.warning("Logger '%s' failed and is disabled: %s", name, error)
        session.journal.record("sink.failed", sink=name, error=str(error))

    sinks = LoggersConfig(
        console=False, tensorboard=config.tensorboard, csv=config.csv, wandb=config.wandb, plugins=config.plugins
    )
    header = RunHeader(session.record.name, session.record.recipe, 0, session.directory.path)
    return build_loggers(sinks, session.directory, header, settings, on_dropped)


def log_checkpoint(directory: Path, flips: int, seconds: float, file: str) -> int:
    """Logs a checkpoint and returns its number. It replaces the file, so earlier entries are marked as removed."""
    try:
        before = read_log(directory)
    except (FileNotFoundError, DamagedFile):
        before = []
    removed = [replace(entry, removed=True) for entry in before[-MAX_LOG_ENTRIES + 1 :]]
    number = before[-1].epoch + 1 if before else 1
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    entries = [*removed, LogEntry(number, flips, None, now, round(seconds, 3), file)]
    content = {"schema_version": SCHEMA_VERSION, "checkpoints": [entry_fields(entry) for entry in entries]}
    write_json(directory / LOG_NAME, content)
    return number


@dataclass(frozen=True)
class ArchivedScheme:
    file: str = ""  # in the archive; empty if it is no better than the naive scheme
    is_new: bool = False  # to this archive
    note: str = ""  # about the brief benchmark


def archive_scheme(
    proved: VerifiedFactorization,
    provenance: Provenance,
    session: RunSession,
    loggers: LoggerFanout,
    *,
    bench: bool,
    deadline: float = inf,
) -> ArchivedScheme:
    """Adds the scheme to archive and loggers; `bench`: with a brief benchmark, until `deadline` (time.monotonic)."""
    if proved.rank >= proved.format.naive_rank:  # no better than the naive scheme
        return ArchivedScheme()
    entry, is_new = Archive(session.directory.path.parent).add(proved, provenance, deadline)
    session.journal.record("artifact.saved", file=str(entry.file), kind="discovery")
    loggers.files_made(ARTIFACT, KIND, [entry.file])
    note = benchmark_briefly(entry, session.directory, session.journal, loggers, deadline) if bench else ""
    return ArchivedScheme(str(entry.file), is_new, note)


def benchmark_briefly(
    entry: Discovery, directory: RunDirectory, journal: Events, loggers: LoggerFanout, deadline: float = inf
) -> str:
    """Benchmarks a new discovery at two small sizes; returns a note for the user, empty for schemes over gf2.

    A failure, or too little time before `deadline` (time.monotonic), becomes part of the note.
    """
    if entry.scheme.field not in NUMERIC_FIELDS:
        return ""
    seconds_left = deadline - time.monotonic()
    if seconds_left < MIN_BENCHMARK_SECONDS:
        return f"Not benchmarked: no time left. Run: palaestra bench {entry.fingerprint}"
    try:
        benchmark = benchmark_in_subprocess(
            entry, BRIEF, new_run_id(), verbose=False, timeout=None if seconds_left == inf else seconds_left
        )
    except PalaestraError as error:
        return f"The benchmark failed: {error}"
    file = BenchStore(directory.path.parent).add(benchmark)
    journal.record("artifact.saved", file=str(file), kind="benchmark")
    loggers.table_made(wandb.NAME, wandb.COLUMNS, wandb.table_rows(benchmark))
    return benchmark_summary(benchmark)


def benchmark_summary(benchmark: Benchmark) -> str:
    cells = [
        f"{cell.dtype}{' ' + cell.detail if cell.detail else ''} {cell.size}: algorithm {cell.algorithm_gain:.2f} x"
        for cell in benchmark.cells
    ]
    return (
        f"Brief benchmark, {benchmark.threads} thread: {'; '.join(cells)}. More: palaestra bench {benchmark.discovery}"
    )
