"""`palaestra bench DISCOVERY [key=value …]`: where a scheme that was found here beats the platform, and where not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.apps.matmul.bench_config import BenchConfig
from palaestra.apps.matmul.bench_plot import COLUMNS, table_row
from palaestra.apps.matmul.bench_report import plain
from palaestra.apps.matmul.bench_store import BenchStore
from palaestra.apps.matmul.bench_wandb import source_run, tell_wandb
from palaestra.apps.matmul.bench_worker import benchmark_apart
from palaestra.apps.matmul.compiler import find_compiler
from palaestra.apps.matmul.executor import check_field
from palaestra.apps.matmul.selecting import select_discovery
from palaestra.config.overrides import parse_overrides
from palaestra.config.resolve import resolve_config
from palaestra.core.command import Answer
from palaestra.core.errors import UsageError
from palaestra.runs.identity import new_run_id
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace

SHORT = len(COLUMNS) - 1  # the last column is for wide paper


def bench(arguments: Namespace) -> Answer:
    wanted = [word for word in arguments.words if "=" not in word]
    if len(wanted) != 1:
        raise UsageError(f"One discovery is wanted, not {len(wanted)}.", "For example: palaestra bench 2x2x2")
    settings = parse_overrides(word for word in arguments.words if "=" in word)
    config = resolve_config(BenchConfig, None, settings)
    entry = select_discovery(wanted[0], runs_root())
    for dtype in config.dtypes:
        check_field(entry.scheme, dtype)
    find_compiler()
    source = source_run(str(entry.provenance.get("run", "")), runs_root()) if config.wandb.enabled else None
    made = benchmark_apart(entry, config, new_run_id(), aloud=not (arguments.quiet or arguments.json))
    store = BenchStore(runs_root())
    file = store.add(made)
    data = {**plain(made), "file": str(file), "page": str(store.page(made.id))}
    rows = tuple(table_row(cell)[:SHORT] for cell in data["cells"])
    notes = (
        f"{made.hardware.get('cpu')}, {made.threads} thread(s), {made.software['blas']}; every type was exact first.",
        *(_crossing(dtype, size) for dtype, size in made.crossovers.items()),
        f"Source run: {made.source_run_id or 'none'}. Plot and all ways: {data['page']}",
        *([tell_wandb(made, config.wandb, source)] if source else []),
    )
    return Answer(data, COLUMNS[:SHORT], rows, notes)


def _crossing(dtype: str, size: int | None) -> str:
    if size is None:
        return f"{dtype}: no size from which on the algorithm gains 3 % or more."
    return f"{dtype}: the algorithm gains from {size} on."
