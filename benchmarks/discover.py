"""Which ranks a search reaches, how soon, for how many seeds: `python benchmarks/discover.py --rows 3x3x3 --json F`.

The rows are those that issue 9 asks for: over gf2 from the naive algorithm, and over the integers. Each seed is a
separate search with `--walkers` threads and a wall-clock limit; CPU seconds are reported as well. On a shared machine
`--clock cpu` applies the limit to CPU seconds per thread. Every scheme that counts is verified. `--seeds`, `--rows` and
`--field` make it shorter; a full table can take hours, so `--json` keeps the rows of the file and replaces those that
were run again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.schemes.factorization import parse_format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.straight_line import count_additions
from palaestra.apps.matmul.search.ladder import advance_ladder, ladder_rungs, lift_to_field, start_ladder
from palaestra.apps.matmul.search.reduce_additions import minimize_additions
from palaestra.runs.environment import describe_hardware

RUNG_FLIPS = DiscoverConfig().rung_flips


@dataclass(frozen=True)
class Row:
    format: str
    field: str
    rank: int
    seconds: float
    seeds: int
    wanted: int  # of the seeds


@dataclass(frozen=True)
class Found:
    seed: int
    rank: int
    wall_seconds: float
    cpu_seconds: float  # of all threads
    flips: int
    additions: int | None = None  # after CSE and polish; over zt


SMALL = "2x2x2:7 2x2x3:11 2x2x4:14 2x2x5:18 2x3x3:15 2x3x4:20 2x4x4:26 3x3x3:23 3x3x4:29 3x3x5:36 3x4x4:38"
WHOLE = "2x2x2:7 2x2x3:11 2x2x4:14 2x2x5:18 2x3x3:15 2x3x4:20 2x3x5:25 2x4x4:26 3x3x3:23 3x3x4:29 3x3x5:36"


def table() -> list[Row]:
    rows = [Row(name, "gf2", int(rank), 60, 10, 9) for name, rank in (word.split(":") for word in SMALL.split())]
    rows += [
        Row("2x3x5", "gf2", 25, 60, 10, 8),
        Row("4x4x4", "gf2", 47, 600, 3, 3),
        Row("4x5x5", "gf2", 76, 600, 1, 1),
        Row("3x4x5", "gf2", 47, 1800, 1, 1),
        Row("4x4x5", "gf2", 61, 1800, 1, 1),
        Row("5x5x5", "gf2", 97, 1800, 1, 1),
    ]
    return rows + [Row(name, "z", int(rank), 300, 1, 1) for name, rank in (word.split(":") for word in WHOLE.split())]


@dataclass(frozen=True)
class Watch:
    """Seconds since its creation, wall-clock and CPU."""

    walkers: int
    clock: str
    wall_at: float
    cpu_at: float

    @property
    def wall(self) -> float:
        return time.monotonic() - self.wall_at

    @property
    def cpu(self) -> float:
        return time.process_time() - self.cpu_at

    @property
    def counted(self) -> float:
        return self.cpu / self.walkers if self.clock == "cpu" else self.wall


def search(row: Row, seed: int, walkers: int, polish: float, clock: str) -> Found:
    """Searches until the rank or the time limit; verifies the scheme over the field of the row."""
    config = DiscoverConfig(format=row.format, field=row.field, target=row.rank)
    field = Field(row.field)
    state = start_ladder(ladder_rungs(config.product), field, seed, walkers)
    watch = Watch(walkers, clock, time.monotonic(), time.process_time())
    with ThreadPoolExecutor(walkers) as pool:
        while state.best_rank > row.rank and watch.counted < row.seconds:
            state = advance_ladder(state, config.search_settings, RUNG_FLIPS, pool if walkers > 1 else None)
    wall, processor = watch.wall, watch.cpu
    proved = lift_to_field(field, state.best, parse_format(row.format))
    if proved is None:
        raise RuntimeError(f"{row.format}: the best scheme is not valid over {row.field}")
    light = minimize_additions(proved, polish, seed) if polish else proved
    additions = count_additions(light.claim, 24).eliminated if light.field is Field.ZT else None
    return Found(seed, proved.rank, round(wall, 2), round(processor, 2), state.flips, additions)


def line(row: Row, found: list[Found]) -> str:
    reached = [one for one in found if one.rank <= row.rank]
    times = sorted(one.wall_seconds for one in reached)
    seconds = (
        f"{times[0]:.1f} to {times[-1]:.1f} s, CPU up to {max(one.cpu_seconds for one in reached):.1f} s"
        if times
        else ""
    )
    missed = sorted(one.rank for one in found if one.rank > row.rank)
    others = f"; others stood at {', '.join(map(str, missed))}" if missed else ""
    additions = [one.additions for one in reached if one.additions is not None]
    find_fewest_additions = f"; additions {min(additions)}" if additions else ""
    goal = f"{row.wanted} of {row.seeds} in {row.seconds:g} s"
    counted = f"{row.format} {row.field} {row.rank}: {len(reached)} of {len(found)}"
    return f"{counted} {seconds}{others}{find_fewest_additions} (goal: {goal})"


def keep(file: Path, walkers: int, clock: str, row: Row, found: list[Found]) -> None:
    """Adds a row to the file; it replaces an older one of the same format and field."""
    stored: dict[str, Any] = {"hardware": describe_hardware(), "rows": []}
    if file.exists():
        stored = json.loads(file.read_text())
    others = [one for one in stored["rows"] if (one["row"]["format"], one["row"]["field"]) != (row.format, row.field)]
    measured = {
        "row": asdict(row),
        "walkers": walkers,
        "clock": clock,
        "measured_at": time.strftime("%Y-%m-%d %H:%M"),
        "load": [round(value, 1) for value in os.getloadavg()],
        "found": [asdict(one) for one in found],
    }
    file.write_text(json.dumps({**stored, "rows": [*others, measured]}, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", help="formats; default: all")
    parser.add_argument("--field", choices=["gf2", "z"], help="default: both")
    parser.add_argument("--seeds", type=int, help="default: as many as the row asks for")
    parser.add_argument("--walkers", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="limit of each search, instead of the row's")
    parser.add_argument(
        "--polish", type=float, default=0.0, help="seconds of search for fewer additions, over whole numbers"
    )
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="what the limit is held against")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    for row in table():
        if (options.rows and row.format not in options.rows) or (options.field and row.field != options.field):
            continue
        limited = Row(**{**asdict(row), "seconds": options.seconds or row.seconds})
        seeds = range(1, (options.seeds or row.seeds) + 1)
        polish = options.polish if row.field == "z" else 0.0
        found = [search(limited, seed, options.walkers, polish, options.clock) for seed in seeds]
        print(line(limited, found), flush=True)
        if options.json:
            keep(options.json, options.walkers, options.clock, limited, found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
