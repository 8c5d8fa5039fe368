"""`palaestra bench DISCOVERY [key=value …]`: where a scheme that was found here beats the platform, and where not."""

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

SHORT = len(COLUMNS) - 1  # the last column is for wide paper


def bench(arguments: Namespace) -> CommandResult:
    wanted = [word for word in arguments.words if "=" not in word]
    if len(wanted) != 1:
        raise UsageError(f"One discovery is wanted, not {len(wanted)}.", "For example: palaestra bench 2x2x2")
    settings = parse_overrides(word for word in arguments.words if "=" in word)
    config = resolve_config(BenchConfig, None, settings)
    entry = select_discovery(wanted[0], runs_root())
    for dtype in config.dtypes:
        check_field(entry.scheme, dtype)
    find_compiler()
    source = find_source_run(str(entry.provenance.get("run", "")), runs_root()) if config.wandb.enabled else None
    made = benchmark_in_subprocess(entry, config, new_run_id(), verbose=not (arguments.quiet or arguments.json))
    store = BenchStore(runs_root())
    file = store.add(made)
    data = {**encode_benchmark(made), "file": str(file), "page": str(store.page(made.id))}
    rows = tuple(table_row(cell)[:SHORT] for cell in data["cells"])
    notes = (
        f"{made.hardware.get('cpu')}, {made.threads} thread(s), {made.software['blas']}; every type was exact first.",
        *(_crossing(dtype, size) for dtype, size in made.crossovers.items()),
        f"Source run: {made.source_run_id or 'none'}. Plot and all ways: {data['page']}",
        *([upload_to_wandb(made, config.wandb, source)] if source else []),
    )
    return CommandResult(data, COLUMNS[:SHORT], rows, notes)


def _crossing(dtype: str, size: int | None) -> str:
    if size is None:
        return f"{dtype}: no size from which on the algorithm gains 3 % or more."
    return f"{dtype}: the algorithm gains from {size} on."


LEAST_LETTERS = 4  # of a fingerprint
SHOWN = 6


def select_discovery(word: str, runs_root: Path) -> Discovery:
    """An id, the beginning of a fingerprint, a run that found one, or a format: its best for numbers."""
    entries = readable_entries(Archive(runs_root))
    if not entries:
        raise NotFound("Nothing was found here yet.", "Try: palaestra discover 2x2x2 field=z seconds=1")
    if SHAPE.fullmatch(word.strip().lower()):
        return _best_of_format(word, entries)
    found = [entry for entry in entries if entry.file.stem == word]
    if not found and len(word) >= LEAST_LETTERS:
        found = [entry for entry in entries if entry.fingerprint.startswith(word.lower())]
    if not found:
        run = RunStore(runs_root).find(word)
        found = [entry for entry in entries if run is not None and entry.provenance.get("run") == run.id]
    if not found:
        known = [entry.file.stem for entry in entries]
        raise NotFound(f"No discovery is called '{word}'.", did_you_mean(word, known) or "See: palaestra discoveries")
    if len(found) > 1:
        listed = ", ".join(entry.file.stem for entry in found[:SHOWN])
        raise NotFound(f"'{word}' could be any of {len(found)} discoveries: {listed}.", "Type the whole id.")
    return found[0]


def _best_of_format(word: str, entries: list[Discovery]) -> Discovery:
    """The fewest multiplications, then the fewest additions; schemes for numbers before those for bits."""
    format_ = parse_format(word)
    found = [entry for entry in entries if entry.scheme.format.ascending == format_.ascending]
    if not found:
        raise NotFound(f"No scheme for {format_} was found here yet.", f"Try: palaestra discover {format_} field=z")
    return min(
        found, key=lambda one: (one.scheme.field is Field.GF2, one.scheme.rank, one.additions_eliminated, one.file.name)
    )
