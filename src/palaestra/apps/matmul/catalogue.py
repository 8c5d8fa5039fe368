"""Discoveries as plain data, for the page and for `palaestra discoveries`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.benchmark.report import BenchStore
from palaestra.apps.matmul.schemes.archive import Archive, Discovery
from palaestra.apps.matmul.schemes.factorization import parse_format
from palaestra.apps.matmul.schemes.formulas import formulas, python_code, straight_line
from palaestra.apps.matmul.schemes.known_ranks import as_of, compare_with_known, known_additions, known_table
from palaestra.core.app import CommandResult
from palaestra.core.errors import DamagedFile, NotFound, did_you_mean
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from palaestra.apps.matmul.benchmark.cells import Cell
    from palaestra.apps.matmul.benchmark.report import Benchmark
    from palaestra.core.catalogue import BenchmarkCell, FoundScheme, SchemeBenchmark, SchemeDetail, SchemeList

Stamp = tuple[str, int, int]  # path, bytes, time of change


class DiscoveryCatalogue:
    """Caches verified entries by file until the file changes, since verification and fingerprint take time."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._cache: dict[Stamp, Discovery | DamagedFile] = {}

    def listing(self, runs_root: Path, wanted: str) -> SchemeList:
        format_ = parse_format(wanted).ascending if wanted else None
        counts = _bench_counts(runs_root)
        found: list[FoundScheme] = []
        damaged: list[str] = []
        for entry in self.entries(runs_root):
            if isinstance(entry, DamagedFile):
                damaged.append(str(entry))
            elif format_ is None or entry.scheme.format.ascending == format_:
                found.append(describe(entry, counts.get(entry.file.stem, 0)))
        found.sort(key=lambda one: (one["format"], one["field"], one["rank"], one["id"]))
        return {"known_as_of": as_of(), "known": known_table(), "discoveries": found, "damaged": damaged}

    def entry(self, runs_root: Path, name: str) -> SchemeDetail:
        entries = [entry for entry in self.entries(runs_root) if isinstance(entry, Discovery)]
        for entry in entries:
            if entry.file.stem == name:
                return describe_fully(entry, BenchStore(runs_root).of(name))
        known = [entry.file.stem for entry in entries]
        raise NotFound(f"No discovery named '{name}'.", did_you_mean(name, known) or "See: palaestra discoveries")

    def entries(self, runs_root: Path) -> list[Discovery | DamagedFile]:
        archive = Archive(runs_root)
        with self._guard:
            fresh = {}
            for file in sorted(archive.path.glob("*.json")):
                status = file.stat()
                stamp = (str(file), status.st_size, status.st_mtime_ns)
                fresh[stamp] = self._cache.get(stamp) or _read(archive, file)
            self._cache = fresh
            return list(fresh.values())


def describe(entry: Discovery, benchmark_count: int) -> FoundScheme:
    """A discovery without its formulas."""
    scheme, origin = entry.scheme, entry.provenance
    known = compare_with_known(scheme)
    return {
        "id": entry.file.stem,
        "format": str(scheme.format),
        "field": str(scheme.field),
        "field_meaning": scheme.field.meaning,
        "holds_over": [str(field) for field in entry.holds_over],
        "rank": scheme.rank,
        "naive_rank": scheme.format.naive_rank,
        "known": known.known,
        "comparison": known.comparison.value,
        "known_as_of": known.as_of,
        "additions_naive": entry.additions_naive,
        "additions_eliminated": entry.additions_eliminated,
        "additions_known": known_additions(scheme.format, scheme.field),
        "largest_coefficient": scheme.claim.largest_coefficient,
        "fingerprint": entry.fingerprint,
        "canonical": entry.canonical,
        "run": origin.get("run", ""),
        "method": origin.get("method", ""),
        "seed": origin.get("seed"),
        "step": origin.get("step"),
        "wall_seconds": origin.get("wall_seconds"),
        "cpu_seconds": origin.get("cpu_seconds"),
        "found_at": origin.get("found_at"),
        "source": origin.get("source", ""),
        "license": origin.get("license", ""),
        "imported_file": origin.get("imported_file", ""),
        "origin": origin.get("origin") or ("reproduced" if origin.get("demonstrations") else "discovered"),
        "parents": list(origin.get("parents", ())),
        "benchmark_count": benchmark_count,
        "file": str(entry.file),
    }


def describe_fully(entry: Discovery, benchmarks: list[Benchmark]) -> SchemeDetail:
    claim = entry.scheme.claim
    return {
        **describe(entry, len(benchmarks)),
        "formulas": formulas(claim),
        "straight_line": straight_line(claim),
        "code": python_code(claim),
        "machine": entry.provenance.get("machine", {}),
        "benchmarks": [describe_benchmark(benchmark) for benchmark in benchmarks],
    }


def describe_benchmark(benchmark: Benchmark) -> SchemeBenchmark:
    return {
        "id": benchmark.id,
        "made_at": benchmark.made_at,
        "cpu": str(benchmark.hardware.get("cpu", "")),
        "threads": benchmark.threads,
        "hardware": benchmark.hardware,
        "software": benchmark.software,
        "products_checked": benchmark.products_checked,
        "crossovers": benchmark.crossovers,
        "cells": [describe_cell(cell) for cell in benchmark.cells],
    }


def describe_cell(cell: Cell) -> BenchmarkCell:
    return {
        "dtype": cell.dtype,
        "detail": cell.detail,
        "size": cell.size,
        "levels": cell.levels,
        "seconds": cell.seconds,
        "baseline": cell.baseline,
        "baseline_seconds": cell.baseline_seconds,
        "gain": cell.gain,
        "kernel_gain": cell.kernel_gain,
        "algorithm_gain": cell.algorithm_gain,
        "error": cell.error,
        "baseline_error": cell.baseline_error,
        "is_exact": cell.is_exact,
        "others": cell.others,
        "result": cell.verdict,
    }


def _read(archive: Archive, file: Path) -> Discovery | DamagedFile:
    try:
        return archive.read(file)
    except DamagedFile as error:
        return error


def _bench_counts(runs_root: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for benchmark in BenchStore(runs_root).all():
        name = str(benchmark.discovery)
        counts[name] = counts.get(name, 0) + 1
    return counts


CATALOGUE = DiscoveryCatalogue()

COLUMNS = ("format", "field", "rank", "known", "verdict", "additions", "after CSE", "run", "fingerprint", "canonical")
COLUMN_KEYS = (
    "format",
    "field",
    "rank",
    "known",
    "comparison",
    "additions_naive",
    "additions_eliminated",
    "run",
    "fingerprint",
)
DIGEST_LETTERS = 12  # of the canonical digest in the table; --json has all
NO_CANONICAL_FORM = "-"  # no canonical form: the scheme has too many symmetries


def list_discoveries(arguments: Namespace) -> CommandResult:
    listing = CATALOGUE.listing(runs_root(), arguments.format or "")
    data: dict[str, Any] = {**listing}
    found, damaged = listing["discoveries"], listing["damaged"]
    rows = tuple(_row({**one}) for one in found)
    notes = (*damaged, f"Best known ranks as of {as_of()}, non-commutative, for the same field.")
    if not found:
        notes = (*damaged, "No discoveries yet. Try: palaestra discover 2x2x2 seconds=1")
    if arguments.format and found:
        data["entries"] = [CATALOGUE.entry(runs_root(), one["id"]) for one in found]
    return CommandResult(data, COLUMNS if found else (), rows, notes)


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    return (*(one[key] for key in COLUMN_KEYS), one["canonical"][:DIGEST_LETTERS] or NO_CANONICAL_FORM)
