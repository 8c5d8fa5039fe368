"""How a search ends, told in status and journal: finished, stopped, or failed, and with which code."""

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


@contextmanager
def record_end(session: RunSession, stop: StopRequest) -> Iterator[None]:
    """Of the search in the block. A second signal leaves at once, as Ctrl-C does."""
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


logger = logging.getLogger(__name__)


def open_loggers(config: SearchLoggersConfig, session: RunSession, settings: Mapping[str, Any]) -> LoggerFanout:
    """A logger that fails is named in the log and the journal; the search continues without it."""

    def on_dropped(name: str, error: Exception) -> None:
        logger.warning("Logger '%s' failed and is disabled: %s", name, error)
        session.journal.record("sink.failed", sink=name, error=str(error))

    asked = LoggersConfig(
        console=False, tensorboard=config.tensorboard, csv=config.csv, wandb=config.wandb, plugins=config.plugins
    )
    header = RunHeader(session.record.name, session.record.recipe, 0, session.directory.path)
    return build_loggers(asked, session.directory, header, settings, on_dropped)


MAX_LOG_ENTRIES = 1000  # of a search that goes on for days the newest


def log_checkpoint(directory: Path, flips: int, seconds: float, file: str) -> int:
    """Its number. A search has one file, which each checkpoint replaces: those before are marked as gone."""
    try:
        before = read_log(directory)
    except (FileNotFoundError, DamagedFile):
        before = []
    gone = [replace(entry, removed=True) for entry in before[-MAX_LOG_ENTRIES + 1 :]]
    number = before[-1].epoch + 1 if before else 1
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    entries = [*gone, LogEntry(number, flips, None, now, round(seconds, 3), file)]
    content = {"schema_version": SCHEMA_VERSION, "checkpoints": [entry_fields(entry) for entry in entries]}
    write_json(directory / LOG_NAME, content)
    return number


ARTIFACT, KIND = "discovery", "algorithm"  # as W&B calls them


@dataclass(frozen=True)
class ArchivedScheme:
    file: str = ""  # in the archive; empty when it is no better than the schoolbook's
    is_new: bool = False  # to this archive
    note: str = ""  # of the first look at its speed


def archive_scheme(
    proved: VerifiedFactorization,
    provenance: Provenance,
    session: RunSession,
    loggers: LoggerFanout,
    *,
    bench: bool,
    deadline: float = inf,
) -> ArchivedScheme:
    """`ends` (of time.monotonic): when the session should be over."""
    if proved.rank >= proved.format.naive_rank:  # what everybody knows is no discovery
        return ArchivedScheme()
    entry, is_new = Archive(session.directory.path.parent).add(proved, provenance, deadline)
    session.journal.record("artifact.saved", file=str(entry.file), kind="discovery")
    loggers.files_made(ARTIFACT, KIND, [entry.file])
    note = benchmark_briefly(entry, session.directory, session.journal, loggers, deadline) if bench else ""
    return ArchivedScheme(str(entry.file), is_new, note)


MIN_SECONDS = 2.0  # seconds: compiling alone takes about one
NUMERIC_FIELDS = frozenset({Field.ZT, Field.Z})


def benchmark_briefly(
    entry: Discovery, directory: RunDirectory, journal: Events, loggers: LoggerFanout, deadline: float = inf
) -> str:
    """What to tell the user, empty when there is nothing; a benchmark that fails takes nothing from the discovery.

    One that cannot be done before `ends` (of time.monotonic) is left to the user.
    """
    if entry.scheme.field not in NUMERIC_FIELDS:
        return ""
    left = deadline - time.monotonic()
    if left < MIN_SECONDS:
        return f"Not benchmarked: the time was up. To do it: palaestra bench {entry.fingerprint}"
    try:
        made = benchmark_in_subprocess(entry, BRIEF, new_run_id(), verbose=False, timeout=None if left == inf else left)
    except PalaestraError as error:
        return f"It could not be timed: {error}"
    file = BenchStore(directory.path.parent).add(made)
    journal.record("artifact.saved", file=str(file), kind="benchmark")
    loggers.table_made(wandb.NAME, wandb.COLUMNS, wandb.table_rows(made))
    return summary(made)


def summary(made: Benchmark) -> str:
    cells = [
        f"{cell.dtype}{' ' + cell.detail if cell.detail else ''} {cell.size}: algorithm {cell.algorithm_gain:.2f} x"
        for cell in made.cells
    ]
    return f"First look, {made.threads} thread: {'; '.join(cells)}. More: palaestra bench {made.discovery}"
