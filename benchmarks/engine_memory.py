"""Memory on both engines: agent-steps per second of the whole loop, by cell and size.

    python benchmarks/engine_memory.py                                 # some minutes; wants a quiet machine
    python benchmarks/engine_memory.py --steps 4096 --repeats 1        # a small try

CartPole, one layer in front of one memory for both heads. `small` remembers 32 numbers in 16 environments x 128 steps
with minibatches of 512 (the recipe `recall`), `large` 128 numbers in 256 x 64 with 4096. Engines, cells and sizes take
turns; figures are medians of steps per second and per CPU second.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

from palaestra.config.train import TrainConfig
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

CELLS = ("mingru", "lstm", "gru")
ENGINES = ("native", "torch")
GRAPH = """
schema_version: 1
summary: a layer and a memory
nodes:
  input:  {{type: vector, source: observation}}
  first:  {{type: mlp, source: input, hidden: [{size}], activation: tanh}}
  memory: {{type: {cell}, source: first, size: {size}}}
  action: {{type: action_head, source: memory}}
  value:  {{type: value_head, source: memory}}
"""
SIZES = {
    "small": (32, {"env_count": 16, "horizon": 128, "minibatch_size": 512}),
    "large": (128, {"env_count": 256, "horizon": 64, "minibatch_size": 4096}),
}


@dataclass(frozen=True)
class Figure:
    size: str
    cell: str
    engine: str
    steps_per_second: float
    steps_per_cpu_second: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200_000, help="of each; at least three iterations")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--out", type=Path, default=None, help="a JSON file to write")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    plan = [(size, cell, engine) for size in asked.sizes for cell in asked.cells for engine in ENGINES]
    rounds = [[measure(*each, asked.steps, asked.threads) for each in plan] for _ in range(asked.repeats)]
    figures = [
        Figure(
            *each,
            median(one[index].steps_per_second for one in rounds),
            median(one[index].steps_per_cpu_second for one in rounds),
        )
        for index, each in enumerate(plan)
    ]
    print(table(figures))
    if asked.out:
        machine = f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
        told = {"machine": machine, "threads": asked.threads, "figures": [asdict(figure) for figure in figures]}
        asked.out.write_text(json.dumps(told, indent=1))
    return 0


def measure(size: str, cell: str, engine: str, steps: int, threads: int) -> Figure:
    units, ppo = SIZES[size]
    batch = ppo["env_count"] * ppo["horizon"]
    settings = TrainConfig(
        engine=engine,
        torch_threads=threads,
        total_steps=max(steps, 3 * batch),
        policy={"graph": GRAPH.format(cell=cell, size=units)},
        ppo=ppo,
    )
    state = new_training_state(settings)
    reports = train(state)
    next(reports)  # first allocations are not training
    wall, cpu, before = time.perf_counter(), time.process_time(), state.env_steps
    for _ in reports:
        pass
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    steps_taken = state.env_steps - before
    return Figure(size, cell, engine, steps_taken / wall, steps_taken / cpu)


def table(figures: list[Figure]) -> str:
    by_torch = {(one.size, one.cell): one.steps_per_second for one in figures if one.engine == "torch"}
    lines = ["| size | cell | engine | steps/s | steps/CPU s | times torch |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {one.size} | {one.cell} | {one.engine} | {one.steps_per_second:,.0f} | {one.steps_per_cpu_second:,.0f} | "
        f"{one.steps_per_second / by_torch[one.size, one.cell]:.1f} |"
        for one in figures
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
