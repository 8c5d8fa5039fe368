"""The native engine on two ranks beside one: steps per second of the same training with `--nproc 1` and `--nproc 2`.

    python benchmarks/engine_ranks.py                                      # some minutes; wants a quiet machine
    python benchmarks/engine_ranks.py --tasks cartpole --share 0.1 --rounds 1   # a small try

Every rank does the same work, so two of them take twice the steps; each has one thread. The runs take turns, and a
ratio is that of two neighbours of one round. `training` counts from the first update to the last, with checkpoints,
metrics.db and TensorBoard; `command` is the whole process, from its start to its end. Exits with 1 when a median ratio
of `training` is below `--at-least`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from peers.installing import compile_ours

LARGE = ("ppo.env_count=256", "ppo.horizon=64", "ppo.minibatch_size=4096", "ppo.update_epochs=4")
SMALL = ("ppo.env_count=4", "ppo.horizon=128", "ppo.minibatch_size=128", "ppo.update_epochs=4")


@dataclass(frozen=True)
class Task:
    words: tuple[str, ...]
    steps: int  # of one rank


TASKS = {
    "cartpole": Task(("cartpole", *LARGE), 4_000_000),
    "halfcheetah": Task(("halfcheetah",), 60_000),
    "arena": Task(("arena.basic_easy_shaped",), 1_000_000),
    "cartpole-small": Task(("cartpole", *SMALL), 2_000_000),
}
ASKED_FOR = ("cartpole", "halfcheetah", "arena")


@dataclass(frozen=True)
class Figure:
    """Steps per second, over all ranks."""

    task: str
    ranks: int
    training: float
    command: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(ASKED_FOR))
    parser.add_argument("--ranks", type=int, default=2, help="to compare with one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of steps")
    parser.add_argument("--at-least", type=float, default=0.0, help="ratio below which this fails")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file to write")
    asked = parser.parse_args()
    compile_ours()
    rounds = []
    for number in range(asked.rounds):
        order = (1, asked.ranks) if number % 2 == 0 else (asked.ranks, 1)
        rounds.append({(task, ranks): measure(task, ranks, asked.share) for task in asked.tasks for ranks in order})
        print(f"Round {number + 1} of {asked.rounds} is done.", file=sys.stderr, flush=True)
    told = [compare(task, asked.ranks, rounds) for task in asked.tasks]
    print(table(told, asked.ranks))
    if asked.out:
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        figures = [asdict(figure) for each in rounds for figure in each.values()]
        asked.out.write_text(json.dumps({"machine": machine, "compared": told, "figures": figures}, indent=1))
    return int(any(one["training_ratio"] < asked.at_least for one in told))


def measure(task: str, ranks: int, share: float) -> Figure:
    steps = max(1, int(TASKS[task].steps * share)) * ranks
    words = [*TASKS[task].words, f"total_steps={steps}", "run=bench", "engine=native", "torch_threads=1"]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "palaestra", "train", *words, "--nproc", str(ranks), "--quiet"],
            cwd=folder,
            check=True,
        )
        seconds = time.perf_counter() - began
        trained, training_seconds = first_to_last(Path(folder) / "runs" / "by-name" / "bench" / "metrics.db")
    return Figure(task, ranks, trained / training_seconds, steps / seconds)


def first_to_last(metrics: Path) -> tuple[int, float]:
    """Steps and seconds from the first update to the last."""
    with contextlib.closing(sqlite3.connect(metrics)) as connection:
        ends = [
            connection.execute(f"SELECT step, at FROM samples ORDER BY step {way} LIMIT 1").fetchone()
            for way in ("ASC", "DESC")
        ]
    return ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]


def compare(task: str, ranks: int, rounds: list[dict[tuple[str, int], Figure]]) -> dict:
    one, several = ([each[task, count] for each in rounds] for count in (1, ranks))
    ratios = sorted(b.training / a.training for a, b in zip(one, several, strict=True))
    return {
        "task": task,
        "one": median(figure.training for figure in one),
        "several": median(figure.training for figure in several),
        "training_ratio": median(ratios),
        "lowest": ratios[0],
        "highest": ratios[-1],
        "command_ratio": median(b.command / a.command for a, b in zip(one, several, strict=True)),
    }


def table(told: list[dict], ranks: int) -> str:
    lines = [
        f"| task | one rank, steps/s | {ranks} ranks, steps/s | ratio, training | of all rounds | ratio, command |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one['task']} | {one['one']:,.0f} | {one['several']:,.0f} | {one['training_ratio']:.2f} | "
        f"{one['lowest']:.2f} to {one['highest']:.2f} | {one['command_ratio']:.2f} |"
        for one in told
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
