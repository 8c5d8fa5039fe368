"""Discoveries as plain data: for `palaestra discoveries --json`, and by the door `palaestra.catalogues` for a page."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from palaestra.apps.matmul.archive import Archive, Discovery
from palaestra.apps.matmul.bench_store import BenchStore
from palaestra.apps.matmul.format import parse_format
from palaestra.apps.matmul.formulas import formulas, python_code, straight_line
from palaestra.apps.matmul.known_ranks import as_of, compare, known_additions, known_table
from palaestra.core.errors import DamagedFile, NotFound, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.apps.matmul.bench_cells import Cell
    from palaestra.apps.matmul.bench_report import Benchmark
    from palaestra.core.catalogue import BenchmarkCell, FoundScheme, SchemeBenchmark, SchemeDetail, SchemeList

Stamp = tuple[str, int, int]  # path, bytes, time of change


class DiscoveryCatalogue:
    """Each file is proved once and then remembered until it changes: proof and fingerprint take their time."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: dict[Stamp, Discovery | DamagedFile] = {}

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
        raise NotFound(f"No discovery is called '{name}'.", did_you_mean(name, known) or "See: palaestra discoveries")

    def entries(self, runs_root: Path) -> list[Discovery | DamagedFile]:
        archive = Archive(runs_root)
        with self._guard:
            fresh = {}
            for file in sorted(archive.path.glob("*.json")):
                status = file.stat()
                stamp = (str(file), status.st_size, status.st_mtime_ns)
                fresh[stamp] = self._known.get(stamp) or _read(archive, file)
            self._known = fresh
            return list(fresh.values())


def describe(entry: Discovery, benchmark_count: int) -> FoundScheme:
    """One line of the list."""
    scheme, origin = entry.scheme, entry.provenance
    place = compare(scheme)
    return {
        "id": entry.file.stem,
        "format": str(scheme.format),
        "field": str(scheme.field),
        "field_meaning": scheme.field.meaning,
        "rank": scheme.rank,
        "naive_rank": scheme.format.schoolbook_rank,
        "known": place.known,
        "comparison": place.verdict.value,
        "known_as_of": place.as_of,
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
        "verdict": origin.get("origin") or ("reproduced" if origin.get("demonstrations") else "discovered"),
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
        "verdict": cell.verdict,
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
