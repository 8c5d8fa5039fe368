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

from palaestra.core.metrics_logger import Sample
from palaestra.runs.directory import RunDirectory
from palaestra.runs.identity import new_run_id
from palaestra.runs.metrics.curve_cache import CurveCache
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.metrics.writer import MetricsWriter

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
    """Medians of wall and of processor time, in milliseconds."""
    wall, processor = [], []
    for _ in range(repeats):
        begun = time.perf_counter(), time.process_time()
        function()
        wall.append((time.perf_counter() - begun[0]) * 1000)
        processor.append((time.process_time() - begun[1]) * 1000)
    return statistics.median(wall), statistics.median(processor)


def chart(cache: CurveCache, wanted, buckets: int = 600, **window) -> int:
    """What one call of /api/metrics does between the request and its answer."""
    series = []
    for directory, name in wanted:
        found = cache.chart(directory, name, buckets, **window)
        series.append({key: getattr(found, key).tolist() for key in ("x", "min", "max", "mean", "count", "bad")})
    return len(json.dumps(series))


def measure(root: Path, names: int, samples: int) -> dict[str, object]:
    runs = [RunDirectory(path) for path in sorted(root.iterdir()) if not path.name.startswith(".")]
    cache, timings = CurveCache(root / ".series"), {}
    for directory in runs:
        with MetricsWriter(directory.metrics_file) as writer:  # what an earlier measurement left
            writer.rewind((samples - 1) * STEPS_PER_SAMPLE)
        cache.refresh(directory)
    timings["laying out one run, once"] = timed(lambda: lay_out(cache, runs[0]), 3)
    across = [(directory, "curve/0") for directory in runs[:20]]
    within = [(runs[-1], f"curve/{number}") for number in range(min(20, names))]
    middle = samples * STEPS_PER_SAMPLE // 2
    zoomed = {"start": middle, "end": middle + samples * STEPS_PER_SAMPLE // 100}
    again = CurveCache(root / ".series")
    timings["first chart of a new daemon, checksums read: 20 runs x 1 name"] = timed(lambda: chart(again, across), 1)
    timings["20 runs x 1 name"] = timed(lambda: chart(cache, across), 15)
    timings["1 run x 20 names"] = timed(lambda: chart(cache, within), 15)
    timings["20 runs x 1 name, over wall time"] = timed(lambda: chart(cache, across, axis="time"), 15)
    timings["20 runs x 1 name, zoomed to 1 %"] = timed(lambda: chart(cache, across, **zoomed), 15)
    small = [(directory, "curve/0") for directory in runs]
    timings[f"sparklines of all {len(runs)} runs"] = timed(lambda: chart(cache, small, 40), 5)
    timings["20 live runs x 1 name, each with a sample more than before"] = live(cache, runs[:20], names)
    alone = timed(lambda: straight(runs[0]), 3)
    timings["20 runs x 1 name, from metrics.db alone"] = tuple(20 * value for value in alone)
    return {
        "runs": len(runs),
        "points of each run": names * samples,
        "points of each curve": samples,
        "metrics.db, MB a run": round(runs[0].metrics_file.stat().st_size / 1e6, 1),
        "cache, MB a run": round(
            sum(file.stat().st_size for file in (root / ".series" / runs[0].id).iterdir()) / 1e6, 1
        ),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "timings": {title: [round(value, 1) for value in pair] for title, pair in timings.items()},
    }


def lay_out(cache: CurveCache, directory: RunDirectory) -> None:
    cache.remove(directory.id)
    cache.refresh(directory)


def live(cache: CurveCache, runs, names: int) -> tuple[float, float]:
    writers = [MetricsWriter(directory.metrics_file) for directory in runs]
    measured = []
    for _ in range(5):
        for writer, directory in zip(writers, runs, strict=True):
            with MetricsReader(directory.metrics_file) as reader:
                number = reader.newest_sample() + 1
            values = {f"curve/{name}": 1.0 for name in range(names)}
            writer.write(Sample(number * STEPS_PER_SAMPLE, values, at=float(number)))
        measured.append(timed(lambda: chart(cache, [(directory, "curve/0") for directory in runs]), 1))
    for writer in writers:
        writer.close()
    return statistics.median(wall for wall, _ in measured), statistics.median(used for _, used in measured)


def straight(directory: RunDirectory) -> None:
    with MetricsReader(directory.metrics_file) as reader:
        reader.buckets("curve/0", 600)


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
    for title, value in rows.items():
        if title != "timings":
            print(f"| {title} | {value} |")
    print("\n| | ms | ms of processor time |\n|---|---|---|")
    for title, (wall, processor) in rows["timings"].items():
        print(f"| {title} | {wall} | {processor} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
