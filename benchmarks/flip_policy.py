"""Does a policy of flips that learned for seconds on 2x2x2 shorten the walk, there and on formats that it never saw?

    python benchmarks/flip_policy.py                      # 10 seeds, a few minutes
    python benchmarks/flip_policy.py --seeds 1 --walks 20 --out /tmp/bench    # a small try

For each seed a policy learns from nothing, on 2x2x2 only. Then it walks, beside the random walk with the same dice:
flips until the best known rank is reached, medians. Both choose among all flips and neither splits rows. A flip
that is weighed costs more time than one that is thrown: what is compared here are flips, and seconds stand beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from palaestra.apps.matmul.schemes.factorization import Format, parse_format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.known_ranks import known_rank
from palaestra.apps.matmul.search.flip_guided_walk import IS_COMPILED, UNIFORM_WEIGHTS
from palaestra.apps.matmul.search.flip_policy import FlipTraining, run_guided_walk, train_flip_policy

LEARNED_ON = Format(2, 2, 2)
FORMATS = ("2x2x2", "2x2x3", "2x3x3")
WALKS_FROM = 1_000  # seeds of walks; those of training are hashed from other words


def walks(format_: Format, weights: tuple[float, ...], count: int, max_flips: int) -> dict[str, Any]:
    rank = known_rank(format_, Field.GF2) or 1
    cpu = time.process_time()
    made = [run_guided_walk(format_, rank, weights, WALKS_FROM + seed, max_flips) for seed in range(count)]
    return {
        "median_flips": median(flips for flips, _ in made),
        "reached": sum(reached <= rank for _, reached in made),
        "walks": count,
        "rank": rank,
        "cpu_seconds": round(time.process_time() - cpu, 3),
    }


def one_seed(seed: int, formats: list[str], count: int, max_flips: int) -> dict[str, Any]:
    """Training, and the first walk that reaches the rank: what a person waits for."""
    cpu, wall = time.process_time(), time.perf_counter()
    *_, last = train_flip_policy(FlipTraining(LEARNED_ON, known_rank(LEARNED_ON, Field.GF2) or 1, seed))
    trained = {"cpu_seconds": round(time.process_time() - cpu, 3), "seconds": round(time.perf_counter() - wall, 3)}
    found = {name: walks(parse_format(name), last.weights, count, max_flips) for name in formats}
    return {"seed": seed, "training": trained, "weights": [round(each, 3) for each in last.weights], "formats": found}


def measure(seeds: int, formats: list[str], count: int, max_flips: int) -> dict[str, Any]:
    random = {name: walks(parse_format(name), UNIFORM_WEIGHTS, count, max_flips) for name in formats}
    rows = []
    for seed in range(1, seeds + 1):
        rows.append(one_seed(seed, formats, count, max_flips))
        print(json.dumps(rows[-1]), flush=True)
    return {"random": random, "seeds": rows, "compiled": IS_COMPILED, "load": os.getloadavg()[0]}


def table(data: dict[str, Any]) -> str:
    lines = ["| format | random flips | learned flips, median of seeds | worst seed | share of random's, worst |"]
    lines.append("|---|---|---|---|---|")
    for name, random in data["random"].items():
        learned = [row["formats"][name]["median_flips"] for row in data["seeds"]]
        base = random["median_flips"]
        lines.append(f"| {name} | {base:g} | {median(learned):g} | {max(learned):g} | {max(learned) / base:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--walks", type=int, default=100)
    parser.add_argument("--max-flips", "--most-flips", type=int, default=200_000)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS))
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    data = measure(words.seeds, words.formats, words.walks, words.max_flips)
    print(table(data))
    if words.out:
        words.out.mkdir(parents=True, exist_ok=True)
        (words.out / "flip-policy.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
