"""Is `auto` ever slower than BLAS? `python benchmarks/auto_matmul.py 2x2x2 --threads 1 --json F`.

First a benchmark of the best scheme of that format in runs/discoveries decides where the scheme is used, together with
all earlier ones on this machine; then, with other sizes and other numbers, auto's choice and NumPy's own product are
timed once more, in turns. Where auto chose NumPy's own function there is nothing to time: it is the same function.

A machine that others use may be slower by a fourth for a second. So rounds are compared one by one; where the middle is
beyond 2 %, more rounds are added, and a size is slower when even the lower bound of the middle (19 times of 20) is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.apps.matmul.auto import choose
from palaestra.apps.matmul.benchmark.executor import Executor
from palaestra.apps.matmul.benchmark.report import BenchStore, run_benchmark
from palaestra.apps.matmul.benchmark.timing import paired_ratio, time_interleaved
from palaestra.apps.matmul.benchmark.worker import THREAD_COUNTS
from palaestra.apps.matmul.config import BenchConfig
from palaestra.apps.matmul.selection import select_discovery
from palaestra.runs.identity import new_run_id
from palaestra.runs.store import runs_root

DTYPES = ("float32", "float64")
SIZES = (48, 96, 150, 200, 300, 400, 600, 700, 900, 1000, 1100, 1300, 1500, 1800, 2000, 2300, 2600, 3000, 3500, 4096)
ALLOWED = 1.02
TRIES = 4  # the first, and three more where it looks slower


@dataclass(frozen=True)
class Row:
    dtype: str
    size: int
    levels: int
    times: float = 1.0  # auto's seconds over NumPy's: the middle of all rounds
    low: float = 1.0
    high: float = 1.0
    rounds: int = 0  # 0: auto chose NumPy's own function

    @property
    def is_slower(self) -> bool:
        return self.low > ALLOWED

    @property
    def words(self) -> str:
        if not self.rounds:
            return "NumPy's own function"
        bounds = f"{self.times:.3f} x NumPy's time ({self.low:.3f} to {self.high:.3f}, {self.rounds} rounds)"
        return f"{self.levels} levels, {bounds}{', SLOWER' if self.is_slower else ''}"


def measure(name: str, threads: int, seconds: float) -> list[Row]:
    entry = select_discovery(name, runs_root())
    config = BenchConfig(dtypes=DTYPES, threads=threads, seconds=seconds)
    store = BenchStore(runs_root())
    store.add(run_benchmark(entry, config, new_run_id(), lambda text: print(text, flush=True)))
    table = store.auto_table(entry.file.stem, threads)
    executors = {dtype: Executor(entry.scheme, dtype, threads) for dtype in DTYPES}
    rows = []
    for dtype in DTYPES:
        for size in SIZES:
            chosen = choose(table, executors, dtype, size)
            rows.append(compare(table.levels_at(dtype, size), chosen, dtype, size, seconds))
            executors[dtype].release_buffers()
            print(f"auto {dtype} {size}: {rows[-1].words}", flush=True)
    return rows


def compare(levels: int, chosen: Any, dtype: str, size: int, seconds: float) -> Row:
    if chosen is np.matmul:
        return Row(dtype, size, 0)
    rng = np.random.default_rng([7, size])
    a, b = (rng.standard_normal((size, size)).astype(dtype) for _ in range(2))
    one, other = np.empty_like(a), np.empty_like(a)
    candidates = {"auto": lambda: chosen(a, b, one), "NumPy": lambda: np.matmul(a, b, out=other)}
    autos: list[float] = []
    numpys: list[float] = []
    for _ in range(TRIES):
        timed = time_interleaved(candidates, seconds, frozenset(candidates))
        autos += timed["auto"].samples
        numpys += timed["NumPy"].samples
        ratio = paired_ratio(autos, numpys)
        if ratio.median <= ALLOWED:
            break
    return Row(dtype, size, levels, round(ratio.median, 4), round(ratio.low, 4), round(ratio.high, 4), len(autos))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("discovery", nargs="?", default="2x2x2")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each comparison")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    counts = dict.fromkeys(THREAD_COUNTS, str(options.threads))
    if any(os.environ.get(name) != count for name, count in counts.items()):  # BLAS reads them once, when it is loaded
        return subprocess.run([sys.executable, *sys.argv], env={**os.environ, **counts}, check=False).returncode
    rows = measure(options.discovery, options.threads, options.seconds)
    slower = [row for row in rows if row.is_slower]
    print(f"{len(slower)} of {len(rows)} more than 2 % slower than BLAS")
    if options.json:
        options.json.write_text(
            json.dumps({"threads": options.threads, "rows": [asdict(row) for row in rows]}, indent=1)
        )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
