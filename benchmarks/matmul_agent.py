"""Does the agent find what is known, from synthetic demonstrations only, and is it the learning that does it?

    python benchmarks/matmul_agent.py                           # 2x2x2 to rank 7, five seeds
    python benchmarks/matmul_agent.py --untrained               # the same planning, with a network that learned nothing
    python benchmarks/matmul_agent.py --format 2x2x3 --seconds 1800 --seeds 3

Every seed is a run of its own, as `palaestra discover FORMAT method=agent seed=…` makes it, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

UNTRAINED = ["agent.warmup=0", "agent.updates=0"]


def command(format_: str, field: str, seed: int, seconds: float, settings: list[str]) -> list[str]:
    words = [format_, "method=agent", f"field={field}", f"seed={seed}", f"seconds={seconds:g}", "agent.device=cpu"]
    return [sys.executable, "-m", "palaestra", "discover", *words, *settings, "--json"]


def one_run(format_: str, field: str, seed: int, seconds: float, settings: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        before, wall = os.times(), time.perf_counter()
        done = subprocess.run(
            command(format_, field, seed, seconds, settings), cwd=folder, capture_output=True, text=True, check=True
        )
        after = os.times()
        found = json.loads(done.stdout)
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "seed": seed,
        "rank": found["rank"],
        "known": found["known"],
        "field": found["field"],
        "moves": found["moves"],
        "seconds": round(time.perf_counter() - wall, 2),  # starting Python and torch is part of it
        "cpu_seconds": round(cpu, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--format", default="2x2x2")
    parser.add_argument("--field", default="gf2")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("settings", nargs="*", help="further key=value of `palaestra discover`")
    words = parser.parse_args()
    settings = [*words.settings, *(UNTRAINED if words.untrained else [])]
    rows = []
    for seed in range(1, words.seeds + 1):
        rows.append(one_run(words.format, words.field, seed, words.seconds, settings))
        print(json.dumps(rows[-1]), flush=True)
    reached = sum(row["known"] is not None and row["rank"] <= row["known"] for row in rows)
    print(f"{words.format} over {words.field}: the best known rank in {reached} of {len(rows)} seeds")
    if words.out:
        words.out.mkdir(parents=True, exist_ok=True)
        (words.out / "matmul-agent.json").write_text(json.dumps({"words": sys.argv[1:], "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
