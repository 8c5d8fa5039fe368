"""A benchmark as a W&B table, uploaded to the run that found the scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.benchmark.cells import FLOATS
from palaestra.core.errors import NotFound
from palaestra.loggers.fanout import LoggerFanout
from palaestra.loggers.wandb.logger import WandbLogger
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


def table_rows(benchmark: Benchmark) -> list[list[Any]]:
    source = [benchmark.id, benchmark.source_run_id, benchmark.discovery]
    scheme = [benchmark.format, benchmark.field, benchmark.rank, benchmark.additions]
    machine = [benchmark.threads, str(benchmark.hardware.get("cpu", "")), benchmark.software["blas"]]
    return [[*source, *scheme, *_cell_values(cell), *machine] for cell in benchmark.cells]


def _cell_values(cell: Cell) -> list[Any]:
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
    """The run that found the scheme; raises `NotFound` before the benchmark starts."""
    found = RunStore(runs_root).find(run_id) if run_id else None
    if found is None:
        raise NotFound(
            f"The run '{run_id}' that found this scheme does not exist, so there is no W&B run for its benchmark.",
            "Leave out wandb.enabled; the table is also stored as JSON and HTML.",
        )
    return found


def upload_to_wandb(benchmark: Benchmark, config: WandbConfig, run: RunDirectory) -> str:
    """Uploads the table; returns a note, which may be an error of W&B."""
    failures: list[str] = []
    with LoggerFanout(lambda _name, error: failures.append(str(error))) as loggers:
        loggers.add("wandb", lambda: WandbLogger(config, run, read_record(run).name, read_config(run)))
        loggers.table_made(NAME, COLUMNS, table_rows(benchmark))
    return failures[0] if failures else f"Uploaded to W&B as tables/{NAME} of {run.id}."
