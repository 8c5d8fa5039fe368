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
from palaestra.apps.matmul.schemes.archive import Archive, Discovery, readable_entries
from palaestra.apps.matmul.schemes.factorization import SHAPE, parse_format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.config.overrides import parse_overrides
from palaestra.config.resolve import resolve_config
from palaestra.core.app import CommandResult
from palaestra.core.errors import NotFound, UsageError, did_you_mean
from palaestra.runs.identity import new_run_id
from palaestra.runs.store import RunStore, runs_root

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

TABLE_WIDTH = len(COLUMNS) - 1  # without the last, wide column


def bench(arguments: Namespace) -> CommandResult:
    names = [each for each in arguments.settings if "=" not in each]
    if len(names) != 1:
        raise UsageError(f"Expected one discovery, got {len(names)}.", "For example: palaestra bench 2x2x2")
    settings = parse_overrides(each for each in arguments.settings if "=" in each)
    config = resolve_config(BenchConfig, None, settings)
    entry = select_discovery(names[0], runs_root())
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


MIN_LETTERS = 4  # of a fingerprint prefix
SHOWN = 6


def select_discovery(word: str, runs_root: Path) -> Discovery:
    """Finds a discovery by id, fingerprint prefix, the run that found it, or format (the best over numbers)."""
    entries = readable_entries(Archive(runs_root))
    if not entries:
        raise NotFound("There are no discoveries.", "Try: palaestra discover 2x2x2 field=z seconds=1")
    if SHAPE.fullmatch(word.strip().lower()):
        return _best_of_format(word, entries)
    found = [entry for entry in entries if entry.file.stem == word]
    if not found and len(word) >= MIN_LETTERS:
        found = [entry for entry in entries if entry.fingerprint.startswith(word.lower())]
    if not found:
        run = RunStore(runs_root).find(word)
        found = [entry for entry in entries if run is not None and entry.provenance.get("run") == run.id]
    if not found:
        known = [entry.file.stem for entry in entries]
        raise NotFound(f"No discovery named '{word}'.", did_you_mean(word, known) or "See: palaestra discoveries")
    if len(found) > 1:
        listed = ", ".join(entry.file.stem for entry in found[:SHOWN])
        raise NotFound(f"'{word}' is ambiguous, {len(found)} discoveries match: {listed}.", "Use the full id.")
    return found[0]


def _best_of_format(word: str, entries: list[Discovery]) -> Discovery:
    """The fewest multiplications, then the fewest additions; schemes over gf2 last."""
    format_ = parse_format(word)
    found = [entry for entry in entries if entry.scheme.format.ascending == format_.ascending]
    if not found:
        raise NotFound(f"There is no discovery for {format_}.", f"Try: palaestra discover {format_} field=z")
    return min(
        found, key=lambda one: (one.scheme.field is Field.GF2, one.scheme.rank, one.additions_eliminated, one.file.name)
    )
