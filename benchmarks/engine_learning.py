"""Do both engines learn equally well? Returns of five seeds each, with overlapping intervals or not.

    python benchmarks/engine_learning.py --recipes cartpole                                              # minutes
    python benchmarks/engine_learning.py --recipes cartpole lunarlander halfcheetah --out learned.json   # hours
    python benchmarks/engine_learning.py --recipes cartpole --seeds 2 --set total_steps=4096             # a small try

Each training is judged by 20 evaluation episodes of its last checkpoint. The interval is the mean's, for 95 %
(Student's t). Engines take turns, seed by seed. With --out every result is written when it is there, and what the file
has already is not trained again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import sys
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, stdev

from palaestra.api import evaluate, train
from palaestra.config.overrides import parse_overrides

ENGINES = ("torch", "native")
T_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}  # by degrees of freedom


@dataclass(frozen=True)
class Outcome:
    recipe: str
    engine: str
    returns: list[float]  # of each seed

    @property
    def half_width(self) -> float:
        count = len(self.returns)
        return T_95[count - 1] * stdev(self.returns) / math.sqrt(count) if count > 1 else math.inf

    def overlaps(self, other: Outcome) -> bool:
        return abs(mean(self.returns) - mean(other.returns)) <= self.half_width + other.half_width


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=["cartpole"])
    parser.add_argument("--seeds", type=int, choices=range(1, 11), default=5, metavar="N", help="seeds 1 to N")
    parser.add_argument("--set", dest="settings", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file to write, and to go on from")
    asked = parser.parse_args()
    outcomes = [each for recipe in asked.recipes for each in compare(recipe, asked.seeds, asked.settings, asked.out)]
    print(table(outcomes))
    return 0


def compare(recipe: str, seeds: int, settings: list[str], out: Path | None) -> list[Outcome]:
    known: dict[str, float] = json.loads(out.read_text()) if out and out.exists() else {}
    returns: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for seed, engine in product(range(1, seeds + 1), ENGINES):
        key = " ".join([recipe, f"engine={engine}", f"seed={seed}", *settings])
        if key not in known:
            known[key] = trained(recipe, engine, seed, settings)
            print(f"{key}: {known[key]:.2f}", flush=True)
            if out:
                out.write_text(json.dumps(known, indent=1))
        returns[engine].append(known[key])
    return [Outcome(recipe, engine, returns[engine]) for engine in ENGINES]


def trained(recipe: str, engine: str, seed: int, settings: list[str]) -> float:
    overrides = {**parse_overrides(settings), "engine": engine, "seed": seed}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        root = Path(folder)
        train(recipe, run="run", quiet=False, runs_root=root, **overrides)
        return evaluate("run:latest", episodes=20, seed=1_000_000, runs_root=root).mean


def table(outcomes: list[Outcome]) -> str:
    """Pairs of engines, one recipe after the other."""
    lines = ["| recipe | engine | mean return | ± (95 %) | seeds |", "|---|---|---|---|---|"]
    lines += [
        f"| {one.recipe} | {one.engine} | {mean(one.returns):.2f} | {one.half_width:.2f} | "
        f"{', '.join(f'{value:.1f}' for value in one.returns)} |"
        for one in outcomes
    ]
    lines += [verdict(first, second) for first, second in zip(outcomes[::2], outcomes[1::2], strict=True)]
    return "\n".join(lines)


def verdict(first: Outcome, second: Outcome) -> str:
    if len(first.returns) == 1:
        return f"{first.recipe}: one seed tells nothing."
    return f"{first.recipe}: the intervals {'overlap' if first.overlaps(second) else 'DO NOT overlap'}."


if __name__ == "__main__":
    sys.exit(main())
