"""`palaestra bench DISCOVERY [key=value …]`: times a discovered scheme against NumPy and BLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.apps.matmul.benchmark.compiler import find_compiler
from palaestra.apps.matmul.benchmark.executor import check_field
from palaestra.apps.matmul.benchmark.page import COLUMNS, table_row
from palaestra.apps.matmul.benchmark.report import BenchStore, encode_benchmark
from palaestra.apps.matmul.benchmark.wandb import find_source_run, upload_to_wandb
from palaestra.apps.matmul.benchmark.worker import benchmark_in_subprocess
from palaestra.apps.matmul.config import BenchConfig
from palaestra.apps.matmul.selection import is_scheme_file, select_or_import
from palaestra.config.overrides import parse_overrides
from palaestra.config.resolve import resolve_config
from palaestra.core.app import CommandResult
from palaestra.core.errors import UsageError
from palaestra.runs.identity import new_run_id
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace

TABLE_WIDTH = len(COLUMNS) - 1  # without the last, wide column


def bench(arguments: Namespace) -> CommandResult:
    names = [each for each in arguments.settings if "=" not in each or is_scheme_file(each)]
    if len(names) != 1:
        raise UsageError(f"Expected one discovery, got {len(names)}.", "For example: palaestra bench 2x2x2")
    settings = parse_overrides(each for each in arguments.settings if each not in names)
    config = resolve_config(BenchConfig, None, settings)
    entry = select_or_import(names[0], runs_root())
    for dtype in config.dtypes:
        check_field(entry.scheme, dtype)
    find_compiler()
    source = find_source_run(str(entry.provenance.get("run", "")), runs_root()) if config.wandb.enabled else None
    benchmark = benchmark_in_subprocess(entry, config, new_run_id(), verbose=not (arguments.quiet or arguments.json))
    store = BenchStore(runs_root())
    file = store.add(benchmark)
    data = {**encode_benchmark(benchmark), "file": str(file), "page": str(store.page(benchmark.id))}
    rows = tuple(table_row(cell)[:TABLE_WIDTH] for cell in data["cells"])
    notes = (
        f"{benchmark.hardware.get('cpu')}, {benchmark.threads} thread(s), {benchmark.software['blas']}; all exact.",
        *(_describe_crossover(dtype, size) for dtype, size in benchmark.crossovers.items()),
        f"Source run: {benchmark.source_run_id or 'none'}. Plot and full table: {data['page']}",
        *([upload_to_wandb(benchmark, config.wandb, source)] if source else []),
    )
    return CommandResult(data, COLUMNS[:TABLE_WIDTH], rows, notes)


def _describe_crossover(dtype: str, size: int | None) -> str:
    if size is None:
        return f"{dtype}: no crossover, the algorithm never gains 3 % or more."
    return f"{dtype}: the algorithm gains from {size} on."
