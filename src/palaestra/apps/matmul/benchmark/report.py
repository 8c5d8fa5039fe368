"""Running benchmarks, and their storage beside the discoveries: a JSON file and an HTML page each."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.auto import AutoTable
from palaestra.apps.matmul.benchmark.big_integers import BigIntegerExecutor
from palaestra.apps.matmul.benchmark.cells import Cell, float_cell, integer_cell, object_cell
from palaestra.apps.matmul.benchmark.compiler import compiler_version, find_compiler
from palaestra.apps.matmul.benchmark.exact_check import check_exact
from palaestra.apps.matmul.benchmark.executor import Executor
from palaestra.apps.matmul.benchmark.page import make_page
from palaestra.apps.matmul.schemes.archive import FOLDER
from palaestra.core.errors import DamagedFile, PalaestraError
from palaestra.runs.environment import describe_hardware
from palaestra.runs.files import read_json, stamped, unstamped, write_atomic, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palaestra.apps.matmul.config import BenchConfig
    from palaestra.apps.matmul.schemes.archive import Discovery

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Benchmark:
    id: str
    discovery: str
    fingerprint: str
    source_run_id: str
    format: str
    field: str
    rank: int
    additions: int  # of the compiled program
    made_at: float  # seconds since 1970
    threads: int
    hardware: dict[str, Any]
    software: dict[str, str]
    products_checked: int  # by the exactness check
    cells: tuple[Cell, ...]
    crossovers: dict[str, int | None]  # by dtype: the scheme gains from this size on


def run_benchmark(entry: Discovery, config: BenchConfig, name: str, print_line: Callable[[str], None]) -> Benchmark:
    checked = check_exact(entry.scheme, config.dtypes, config.threads, config.seed)
    print_line(f"{checked} products of the generated code are exact.")
    cells = []
    for cell in _cells(entry, config):
        cells.append(cell)
        print_line(summarize_cell(cell))
    table = auto_table(cells)
    return Benchmark(
        id=name,
        discovery=entry.file.stem,
        fingerprint=entry.fingerprint,
        source_run_id=str(entry.provenance.get("run", "")),
        format=str(entry.scheme.format),
        field=str(entry.scheme.field),
        rank=entry.scheme.rank,
        additions=_additions(entry),
        made_at=time.time(),
        threads=config.threads,
        hardware=describe_hardware(),
        software=describe_software(),
        products_checked=checked,
        cells=tuple(cells),
        crossovers={dtype: table.crossover(dtype) for dtype in table.levels},
    )


def auto_table(cells: list[Cell]) -> AutoTable:
    """The best levels by dtype and size; without Python integers, whose length matters more than the size."""
    found: dict[str, list[tuple[int, int]]] = {}
    for cell in cells:
        if cell.dtype != "object":
            found.setdefault(cell.dtype, []).append((cell.size, cell.auto_levels))
    return AutoTable({dtype: tuple(sorted(rows)) for dtype, rows in found.items()})


def encode_benchmark(benchmark: Benchmark) -> dict[str, Any]:
    return asdict(benchmark)


def decode_benchmark(data: dict[str, Any], source: str) -> Benchmark:
    """A benchmark from JSON data; raises `DamagedFile` for missing or unknown keys."""
    try:
        return Benchmark(**{**data, "cells": tuple(Cell(**cell) for cell in data["cells"])})
    except (KeyError, TypeError) as error:
        raise DamagedFile(f"{source} is not a benchmark of this version: {error}.") from error


def describe_software() -> dict[str, str]:
    built: Any = np.show_config(mode="dicts")
    blas = built["Build Dependencies"]["blas"]
    return {
        "palaestra": version("palaestra"),
        "numpy": np.__version__,
        "blas": f"{blas['name']} {blas['version']}",
        "compiler": compiler_version(find_compiler()),
        "cupy": "not used: no GPU executor",
    }


def summarize_cell(cell: Cell) -> str:
    """One comparison as a line of text."""
    detail = f" {cell.detail}" if cell.detail else ""
    against = f"{cell.gain:.2f} x {cell.baseline}" if cell.gain is not None else f"{cell.baseline} not timed"
    return (
        f"{cell.dtype}{detail} {cell.size}: {cell.verdict}, {cell.seconds * 1e3:.3g} ms, {against}, "
        f"algorithm {cell.algorithm_gain:.2f} x ({cell.levels} levels)"
    )


def _cells(entry: Discovery, config: BenchConfig) -> Iterator[Cell]:
    for dtype in config.dtypes:
        if dtype == "object":
            big = BigIntegerExecutor(entry.scheme)
            yield from (object_cell(big, size, bits, config) for bits in config.bits for size in config.object_sizes)
            continue
        executor = Executor(entry.scheme, "int64" if dtype == "modular" else dtype, config.threads)
        for size in sorted(set(config.sizes)):
            if dtype.startswith("float"):
                yield float_cell(executor, size, config)
            else:
                yield integer_cell(executor, size, config, config.modulus if dtype == "modular" else 0)
            executor.release_buffers()


def _additions(entry: Discovery) -> int:
    return BigIntegerExecutor(entry.scheme).programs.additions


class BenchStore:
    def __init__(self, runs_root: Path) -> None:
        self.path = runs_root / FOLDER / "benchmarks"

    def add(self, benchmark: Benchmark) -> Path:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.path / f"{benchmark.id}.json"
        write_json(file, stamped(encode_benchmark(benchmark), SCHEMA_VERSION))
        write_atomic(self.page(benchmark.id), make_page(encode_benchmark(benchmark)))
        return file

    def page(self, name: str) -> Path:
        return self.path / f"{name}.html"

    def of(self, discovery: str) -> list[Benchmark]:
        """All benchmarks of a discovery, newest first; unreadable ones are skipped."""
        return [benchmark for benchmark in self.all() if benchmark.discovery == discovery]

    def auto_table(self, discovery: str, threads: int) -> AutoTable:
        """Merges the measurements with the same CPU, BLAS, compiler and threads as here; all must agree on a gain."""
        ours = (describe_hardware().get("cpu"), describe_software(), threads)
        table = AutoTable()
        for made in self.of(discovery):
            if (made.hardware.get("cpu"), made.software, made.threads) == ours:
                table = table.merge(auto_table(list(made.cells)))
        return table

    def all(self) -> list[Benchmark]:
        found = []
        for file in sorted(self.path.glob("*.json"), reverse=True):
            try:
                found.append(decode_benchmark(unstamped(read_json(file), SCHEMA_VERSION, file), file.name))
            except PalaestraError:
                continue
        return found
