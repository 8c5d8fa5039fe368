"""Benchmarks that were made, beside the discoveries they are of: a JSON file and a page each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.apps.matmul.archive import FOLDER
from palaestra.apps.matmul.auto import AutoTable
from palaestra.apps.matmul.bench_plot import make_page
from palaestra.apps.matmul.bench_report import (
    SCHEMA_VERSION,
    Benchmark,
    auto_table,
    decode_benchmark,
    describe_software,
    plain,
)
from palaestra.core.errors import PalaestraError
from palaestra.runs.environment import describe_hardware
from palaestra.runs.files import read_json, write_atomic, write_json
from palaestra.runs.schema import stamped, unstamped

if TYPE_CHECKING:
    from pathlib import Path


class BenchStore:
    def __init__(self, runs_root: Path) -> None:
        self.path = runs_root / FOLDER / "benchmarks"

    def add(self, benchmark: Benchmark) -> Path:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.path / f"{benchmark.id}.json"
        write_json(file, stamped(plain(benchmark), SCHEMA_VERSION))
        write_atomic(self.page(benchmark.id), make_page(plain(benchmark)))
        return file

    def page(self, name: str) -> Path:
        return self.path / f"{name}.html"

    def of(self, discovery: str) -> list[Benchmark]:
        """All of one discovery, the newest first; one that cannot be read is left out, it proves nothing."""
        return [benchmark for benchmark in self.all() if benchmark.discovery == discovery]

    def auto_table(self, discovery: str, threads: int) -> AutoTable:
        """What was measured on a processor, BLAS and compiler like ours; all measurements must agree on a gain."""
        ours = (describe_hardware().get("cpu"), describe_software(), threads)
        table = AutoTable()
        for made in self.of(discovery):
            if (made.hardware.get("cpu"), made.software, made.threads) == ours:
                table = table.agreeing(auto_table(list(made.cells)))
        return table

    def all(self) -> list[Benchmark]:
        found = []
        for file in sorted(self.path.glob("*.json"), reverse=True):
            try:
                found.append(decode_benchmark(unstamped(read_json(file), SCHEMA_VERSION, file), file.name))
            except PalaestraError:
                continue
        return found
