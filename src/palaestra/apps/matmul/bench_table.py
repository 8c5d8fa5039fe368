"""A benchmark as one table for W&B: a row for each comparison, each with the run that found the scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.bench_cells import FLOATS

if TYPE_CHECKING:
    from palaestra.apps.matmul.bench_cells import Cell
    from palaestra.apps.matmul.bench_report import Benchmark

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
