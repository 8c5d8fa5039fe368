"""Is `auto` ever slower than BLAS? `python benchmarks/auto_matmul.py 2x2x2 --threads 1 --json F`.

First a benchmark of the best scheme of that format in runs/discoveries decides where the scheme is used; then, with
other sizes and other numbers, auto's choice and NumPy's own product are timed once more, in turns. Where auto chose
NumPy's own function there is nothing to time: it is the same function.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from palaestra.apps.matmul.auto import choose
from palaestra.apps.matmul.bench_config import BenchConfig
from palaestra.apps.matmul.bench_report import auto_table, run_benchmark
from palaestra.apps.matmul.bench_timing import time_in_turns
from palaestra.apps.matmul.bench_worker import THREAD_COUNTS
from palaestra.apps.matmul.executor import Executor
from palaestra.apps.matmul.selecting import select_discovery
from palaestra.runs.identity import new_run_id
from palaestra.runs.store import runs_root

DTYPES = ("float32", "float64")
SIZES = (48, 96, 150, 200, 300, 400, 600, 700, 900, 1000, 1100, 1300, 1500, 1800, 2000, 2300, 2600, 3000, 3500, 4096)
ALLOWED = 1.02


def measure(name: str, threads: int, seconds: float) -> list[dict[str, object]]:
    entry = select_discovery(name, runs_root())
    config = BenchConfig(dtypes=DTYPES, threads=threads, seconds=seconds)
    table = auto_table(list(run_benchmark(entry, config, new_run_id(), lambda text: print(text, flush=True)).cells))
    executors = {dtype: Executor(entry.scheme, dtype, threads) for dtype in DTYPES}
    return [compare(table.levels_at(dtype, size), choose(table, executors, dtype, size), dtype, size, seconds)
            for dtype in DTYPES for size in SIZES]  # fmt: skip


def compare(levels: int, chosen: object, dtype: str, size: int, seconds: float) -> dict[str, object]:
    """`times`: auto's seconds over NumPy's."""
    if chosen is np.matmul:
        return {"dtype": dtype, "size": size, "levels": 0, "times": 1.0, "is_numpys": True}
    dice = np.random.default_rng([7, size])
    a, b = (dice.standard_normal((size, size)).astype(dtype) for _ in range(2))
    one, other = np.empty_like(a), np.empty_like(a)
    ways = {"auto": lambda: chosen(a, b, one), "NumPy": lambda: np.matmul(a, b, out=other)}
    timed = time_in_turns(ways, seconds, frozenset(ways))
    times = timed["auto"].best / timed["NumPy"].best
    return {"dtype": dtype, "size": size, "levels": levels, "times": round(times, 4), "is_numpys": False}


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
    for row in rows:
        how = "NumPy's own function" if row["is_numpys"] else f"{row['levels']} levels, {row['times']} x NumPy's time"
        print(f"auto {row['dtype']} {row['size']}: {how}")
    slower = [row for row in rows if row["times"] > ALLOWED]
    print(f"{len(slower)} of {len(rows)} more than 2 % slower than BLAS")
    if options.json:
        options.json.write_text(json.dumps({"threads": options.threads, "rows": rows}, indent=1))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
