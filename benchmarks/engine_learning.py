"""Do both engines learn equally well? Returns of five seeds each, with overlapping intervals or not.

    python benchmarks/engine_learning.py --recipes cartpole                      # minutes
    python benchmarks/engine_learning.py --recipes cartpole lunarlander halfcheetah --seeds 1 2 3 4 5    # hours
    python benchmarks/engine_learning.py --recipes cartpole --set total_steps=4096 --seeds 1 2           # a small try

Each training is judged by 20 evaluation episodes of its last checkpoint. The interval is the mean's, for 95 %
(Student's t). Engines take turns, seed by seed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev

from palaestra.api import evaluate, start_training
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=["cartpole"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--set", dest="settings", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file to write")
    asked = parser.parse_args()
    outcomes = [each for recipe in asked.recipes for each in compare(recipe, asked.seeds, asked.settings)]
    print(table(outcomes))
    if asked.out:
        asked.out.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return 0


def compare(recipe: str, seeds: list[int], settings: list[str]) -> list[Outcome]:
    returns: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for seed in seeds:
        for engine in ENGINES:
            returns[engine].append(trained(recipe, engine, seed, settings))
            print(f"{recipe} {engine} seed {seed}: {returns[engine][-1]:.2f}", flush=True)
    return [Outcome(recipe, engine, returns[engine]) for engine in ENGINES]


def trained(recipe: str, engine: str, seed: int, settings: list[str]) -> float:
    overrides = {**parse_overrides(settings), "engine": engine, "seed": seed}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        root = Path(folder)
        start_training(recipe, overrides, run="run", runs_root=root)
        return evaluate("run:latest", episodes=20, seed=1_000_000, runs_root=root).mean


def table(outcomes: list[Outcome]) -> str:
    lines = ["| recipe | engine | mean return | ± (95 %) | seeds |", "|---|---|---|---|---|"]
    lines += [
        f"| {one.recipe} | {one.engine} | {mean(one.returns):.2f} | {one.half_width:.2f} | "
        f"{', '.join(f'{value:.1f}' for value in one.returns)} |"
        for one in outcomes
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
