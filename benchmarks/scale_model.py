"""How far training and evaluation scale: measured here in small, predicted for 2 to 256 ranks and 10 to 1,000 workers.

    python benchmarks/scale_model.py                              # about five minutes; wants a quiet machine
    python benchmarks/scale_model.py --quick --out /tmp/scale     # a small try
    python benchmarks/scale_model.py --page-only                  # the page again, from scale.json

Measures sums of gradients (shared memory, loopback, and with a delay between namespaces where root allows it), what one
rank does in an update, and what an evaluation on Ray costs. Then predicts, checks the formulae by a simulation and by
real processes, and writes scale.md, scale.json and scale.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import torch
from scale import page
from scale.delay_network import can_delay, open_machines
from scale.evaluations import EvaluationFigure, costs_of, measure_evaluations, with_episodes_of
from scale.result import Result, from_json, to_json
from scale.sums import SumFigure, measure_gloo, measure_memory
from scale.training import RECIPES, TrainingFigure, measure_ranks, measure_workload

ROOT = Path(__file__).parents[1]
DECISION = "0033-sums-in-the-order-of-ranks.md"
RANKS = (2, 4, 8)
NUMBERS = (1_000, 10_000, 100_000, 1_000_000)
DELAY = 2e-3  # seconds one way; much longer than what the emulation adds
HEAVY_EPISODES = 16  # of an evaluation of HalfCheetah


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repetitions, for a try")
    parser.add_argument("--page-only", action="store_true", help="measure nothing; write the page from scale.json")
    parser.add_argument("--no-ray", action="store_true", help="leave evaluations out")
    parser.add_argument("--note", default="", help="a sentence for the top of the page")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="folder for .md, .json and .svg")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "scale.json"
    if not arguments.page_only:
        measured = measure(quick=arguments.quick, with_ray=not arguments.no_ray)
        file.write_text(json.dumps(to_json(replace(measured, note=arguments.note)), indent=1))
    result = from_json(json.loads(file.read_text()))
    (arguments.out / "scale.md").write_text(page.page(result))
    (arguments.out / "scale.svg").write_text(page.figure(result))
    print(page.first_limits(result))
    return 0


def measure(*, quick: bool, with_ray: bool) -> Result:
    load = os.getloadavg()[0]
    torch.set_num_threads(1)
    sums = measure_sums(20 if quick else 200)
    delayed = measure_delayed(5 if quick else 30)
    trainings = measure_trainings(4 if quick else 15)
    collectives = max(round(one.collectives) for one in trainings)
    workloads = [measure_workload(name, 1.0 if quick else 8.0, collectives) for name in RECIPES]
    evaluations = measure_ray(12 if quick else 160) if with_ray and find_spec("ray") else []
    costs = [costs_of(evaluations[0])] if evaluations else []
    costs += [with_episodes_of(costs[0], evaluations[-1], HEAVY_EPISODES)] if evaluations else []
    return Result(
        f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, torch {torch.__version__}",
        len(os.sched_getaffinity(0)),
        datetime.now(UTC).date().isoformat(),
        load,
        DECISION,
        tuple(sums),
        tuple(delayed),
        tuple(workloads),
        tuple(trainings),
        tuple(evaluations),
        tuple(costs),
    )


def measure_sums(repeats: int) -> list[SumFigure]:
    figures: list[SumFigure] = []
    for ranks in RANKS:
        report(f"Sums among {ranks} ranks")
        figures += measure_memory(ranks, NUMBERS, repeats)
        figures += measure_gloo(ranks, NUMBERS, max(5, repeats * 2 // ranks))
    return figures


def measure_delayed(repeats: int) -> list[SumFigure]:
    figures: list[SumFigure] = []
    for ranks in RANKS if can_delay() else ():
        report(f"Sums among {ranks} namespaces with a delay of {DELAY * 1e3:g} ms")
        with open_machines(ranks, DELAY) as machines:
            figures += measure_gloo(ranks, (10_000, 100_000), repeats, machines=machines, delay_seconds=DELAY)
    return figures


def measure_trainings(updates: int) -> list[TrainingFigure]:
    figures: list[TrainingFigure] = []
    for name in RECIPES:
        report(f"Real ranks of {name}")
        figures.append(measure_ranks(name, 1, "memory", updates))
        for ranks in (2, 4):
            figures += [measure_ranks(name, ranks, transport, updates) for transport in ("memory", "ring", "ordered")]
    return figures


def measure_ray(checkpoints: int) -> list[EvaluationFigure]:
    """One worker, two workers, and one worker with episodes that take longer."""
    figures = []
    for recipe, workers, count, episodes in (
        ("cartpole", 1, checkpoints, 5),
        ("cartpole", 2, checkpoints, 5),
        ("halfcheetah", 1, max(4, checkpoints // 20), 2),
    ):
        report(f"Evaluations of {recipe} with {workers} workers")
        figures.append(measure_evaluations(recipe, workers, count, episodes))
    return figures


def report(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
