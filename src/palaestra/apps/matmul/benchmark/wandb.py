"""A benchmark as one table for W&B: a row for each comparison, each with the run that found the scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.benchmark.cells import FLOATS
from palaestra.core.errors import NotFound
from palaestra.loggers.fanout import LoggerFanout
from palaestra.loggers.wandb import WandbLogger
from palaestra.runs.documents import read_config
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.apps.matmul.benchmark.cells import Cell
    from palaestra.apps.matmul.benchmark.report import Benchmark
    from palaestra.config.loggers import WandbConfig
    from palaestra.runs.directory import RunDirectory

NAME = "benchmark"
COLUMNS = (
    "Benchmark ID",
    "Source Run ID",
    "Discovery",
    "Format",
    "Field",
    "Rank",
    "Additions",
    "Type",
    "Size",
    "Levels",
    "Verdict",
    "Scheme (ms)",
    "Baseline",
    "Baseline (ms)",
    "Gain",
    "Gain over float64 BLAS",
    "Kernel's gain",
    "Algorithm's gain",
    "Error",
    "Threads",
    "CPU",
    "BLAS",
)


def table_rows(made: Benchmark) -> list[list[Any]]:
    whose = [made.id, made.source_run_id, made.discovery, made.format, made.field, made.rank, made.additions]
    machine = [made.threads, str(made.hardware.get("cpu", "")), made.software["blas"]]
    return [[*whose, *_comparison(cell), *machine] for cell in made.cells]


def _comparison(cell: Cell) -> list[Any]:
    return [
        f"{cell.dtype} {cell.detail}".strip(),
        cell.size,
        cell.levels,
        cell.verdict,
        1e3 * cell.seconds,
        cell.baseline,
        None if cell.baseline_seconds is None else 1e3 * cell.baseline_seconds,
        cell.gain,
        cell.others[FLOATS] / cell.seconds if FLOATS in cell.others else None,
        cell.kernel_gain,
        cell.algorithm_gain,
        cell.error,
    ]


def find_source_run(run_id: str, runs_root: Path) -> RunDirectory:
    """Refuses before the clock runs: without that run there is no page to send a table to."""
    found = RunStore(runs_root).find(run_id) if run_id else None
    if found is None:
        raise NotFound(
            f"The run '{run_id}' that found this scheme is not here, so W&B has no page for its benchmark.",
            "Leave out wandb.enabled; the table is kept as JSON and as a page anyway.",
        )
    return found


def upload_to_wandb(made: Benchmark, config: WandbConfig, run: RunDirectory) -> str:
    """What became of it, in words; W&B's failures take nothing from a benchmark."""
    failures: list[str] = []
    with LoggerFanout(lambda _name, error: failures.append(str(error))) as loggers:
        loggers.add("wandb", lambda: WandbLogger(config, run, read_record(run).name, read_config(run)))
        loggers.table_made(NAME, COLUMNS, table_rows(made))
    return failures[0] if failures else f"W&B has it as tables/{NAME} of {run.id}."
