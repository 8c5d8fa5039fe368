"""How long a chart takes over many long runs: `python benchmarks/metrics_api.py --runs 100 --points 1000000`.

Makes the runs (metrics.db only, the same tables as a training writes, filled in one go), asks as the web API asks, and
removes them. Prints a table, writes JSON with --json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import sqlite3
import statistics
import time
from pathlib import Path

from palaestra.contracts.sink import Sample
from palaestra.runs.directory import RunDirectory
from palaestra.runs.identity import new_run_id
from palaestra.runs.metrics_reader import MetricsReader
from palaestra.runs.metrics_writer import MetricsWriter
from palaestra.runs.series_cache import SeriesCache

STEPS_PER_SAMPLE = 512


def make_run(path: Path, names: int, samples: int, seed: int) -> None:
    path.mkdir(parents=True)
    with MetricsWriter(path / "metrics.db") as writer:
        writer.write(Sample(0, {f"curve/{number}": 0.0 for number in range(names)}, at=0.0))
    connection = sqlite3.connect(path / "metrics.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO samples VALUES (?, ?, ?)",
        ((number + 1, number * STEPS_PER_SAMPLE, float(number)) for number in range(1, samples)),
    )
    dice = random.Random(seed)
    noise = [dice.random() for _ in range(4096)]
    connection.executemany(
        "INSERT INTO points VALUES (?, ?, ?, ?)",
        (
            (
                number * STEPS_PER_SAMPLE,
                name,
                noise[(number * 31 + name * 7) & 4095] + math.sin(number / 900),
                number + 1,
            )
            for number in range(1, samples)
            for name in range(1, names + 1)
        ),
    )
    connection.execute("COMMIT")
    connection.close()


def timed(function, repeats: int = 5) -> tuple[float, float]:
    """Median and worst, in milliseconds."""
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        seconds.append((time.perf_counter() - begun) * 1000)
    return statistics.median(seconds), max(seconds)


def chart(cache: SeriesCache, wanted, buckets: int = 600, **window) -> int:
    """What one call of /api/metrics does between the request and its answer."""
    series = []
    for directory, name in wanted:
        found = cache.chart(directory, name, buckets, **window)
        series.append({key: getattr(found, key).tolist() for key in ("x", "min", "max", "mean", "count", "bad")})
    return len(json.dumps(series))


def measure(root: Path, names: int, samples: int) -> dict[str, object]:
    runs = [RunDirectory(path) for path in sorted(root.iterdir()) if not path.name.startswith(".")]
    cache = SeriesCache(root / ".series")
    begun = time.perf_counter()
    for directory in runs:
        cache.refresh(directory)
    filled = time.perf_counter() - begun
    across = [(directory, "curve/3") for directory in runs[:20]]
    within = [(runs[-1], f"curve/{number}") for number in range(min(20, names))]
    middle = samples * STEPS_PER_SAMPLE // 2
    again = SeriesCache(root / ".series")
    first, _ = timed(lambda: chart(again, across), 1)
    rows: dict[str, object] = {
        "runs": len(runs),
        "points per run": names * samples,
        "database MB per run": round((runs[0].metrics_file.stat().st_size) / 1e6, 1),
        "cache MB per run": round(
            sum(file.stat().st_size for file in (root / ".series" / runs[0].id).iterdir()) / 1e6, 1
        ),
        "laying out one run, s": round(filled / len(runs), 2),
        "first chart of a new daemon (20 runs x 1 name), ms": round(first, 1),
    }
    for title, wanted, window in (
        ("20 runs x 1 name", across, {}),
        ("1 run x 20 names", within, {}),
        ("20 runs x 1 name over time", across, {"axis": "time"}),
        ("20 runs, zoomed to 1 %", across, {"start": middle, "end": middle + samples * STEPS_PER_SAMPLE // 100}),
    ):
        median, worst = timed(lambda: chart(cache, wanted, **window))  # noqa: B023  called at once
        rows[f"{title}, median ms"] = round(median, 1)
        rows[f"{title}, worst ms"] = round(worst, 1)
    rows["sparklines of all runs (40 buckets), ms"] = round(
        timed(lambda: chart(cache, [(directory, "curve/1") for directory in runs], 40))[0], 1
    )
    rows["20 live runs, each with one new sample, ms"] = round(live(cache, runs[:20], names, samples), 1)
    rows["the same chart from metrics.db alone, ms"] = round(timed(lambda: straight(runs[0]), 3)[0] * 20, 0)
    return rows


def live(cache: SeriesCache, runs, names: int, samples: int) -> float:
    writers = [MetricsWriter(directory.metrics_file) for directory in runs]
    seconds = []
    for number in range(5):
        for writer in writers:
            step = (samples + number) * STEPS_PER_SAMPLE
            writer.write(Sample(step, {f"curve/{name}": 1.0 for name in range(names)}, at=float(step)))
        begun = time.perf_counter()
        chart(cache, [(directory, "curve/3") for directory in runs])
        seconds.append((time.perf_counter() - begun) * 1000)
    for writer in writers:
        writer.close()
    return statistics.median(seconds)


def straight(directory: RunDirectory) -> None:
    with MetricsReader(directory.metrics_file) as reader:
        reader.buckets("curve/3", 600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--points", type=int, default=1_000_000, help="of each run, all names together")
    parser.add_argument("--names", type=int, default=20)
    parser.add_argument("--root", type=Path, default=Path("/tmp/webdata/metrics"))
    parser.add_argument(
        "--keep", action="store_true", help="leave the runs where they are, and use those that are there"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    samples = options.points // options.names
    if not options.root.exists():
        begun = time.perf_counter()
        for number in range(options.runs):
            make_run(options.root / new_run_id(), options.names, samples, number)
        print(f"made {options.runs} runs in {time.perf_counter() - begun:.0f} s")
    try:
        rows = measure(options.root, options.names, samples)
    finally:
        if not options.keep:
            shutil.rmtree(options.root)
    rows["cores"] = os.cpu_count()
    for title, value in rows.items():
        print(f"| {title} | {value} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
