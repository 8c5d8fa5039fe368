"""Arena on the native engine: its worlds stepped inside, and the same training with a call from Python for every step.

    python benchmarks/engine_arena.py                                  # some minutes
    python benchmarks/engine_arena.py --iterations 2 --repeats 1       # a small try

Both ways learn the same bits. They take turns, in blocks of whole episodes, each with a training of its own that goes
on; figures are medians of agent-steps per second and per CPU second of the whole loop, and per CPU second of playing.
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
from typing import TYPE_CHECKING, Any

import torch

from palaestra.config.recipes.registry import find_recipe
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.algorithms.base import Progress
    from palaestra.core.episodes import EpisodeResult
    from palaestra.training.engines.native_ppo import NativePpo

WAYS = ("inside", "from Python")
ENDLESS = 10**12  # steps
RECIPES = ("arena.basic_easy_shaped", "arena.tiny")


@dataclass(frozen=True)
class Figure:
    recipe: str
    threads: int
    way: str
    steps_per_second: float
    steps_per_cpu_second: float
    played_per_cpu_second: float  # of playing alone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=32, help="of each in a block; eight are an episode")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--out", type=Path, default=None, help="a JSON file to write")
    asked = parser.parse_args()
    figures = [
        figure
        for recipe in asked.recipes
        for threads in asked.threads
        for figure in compare(recipe, threads, asked.iterations, asked.repeats)
    ]
    print(table(figures))
    if asked.out:
        machine = f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
        asked.out.write_text(json.dumps({"machine": machine, "figures": [asdict(one) for one in figures]}, indent=1))
    return 0


class Training:
    """One that goes on from block to block."""

    def __init__(self, recipe: str, threads: int, way: str) -> None:
        asked = {"engine": "native", "torch_threads": threads, "total_steps": ENDLESS}
        state = new_training_state(find_recipe(recipe).config.model_copy(update=asked))
        engine: Any = state.algorithm.compute
        if way == "from Python":
            engine._batch = None
        self._played = engine._collect
        self.playing = 0.0  # CPU seconds
        engine._collect = self._play
        self.reports = train(state)
        next(self.reports)  # first allocations are not training

    def _play(self, ppo: NativePpo, progress: Progress) -> Sequence[EpisodeResult]:
        began = time.process_time()
        episodes: Sequence[EpisodeResult] = self._played(ppo, progress)
        self.playing += time.process_time() - began
        return episodes


def compare(recipe: str, threads: int, iterations: int, repeats: int) -> list[Figure]:
    trainings = {way: Training(recipe, threads, way) for way in WAYS}
    blocks: dict[str, list[Figure]] = {way: [] for way in WAYS}
    for repeat in range(repeats):
        for way in WAYS if repeat % 2 else reversed(WAYS):
            blocks[way].append(measured(recipe, threads, way, trainings[way], iterations))
    return [middle(blocks[way]) for way in WAYS]


def measured(recipe: str, threads: int, way: str, training: Training, iterations: int) -> Figure:
    wall, cpu, playing = time.perf_counter(), time.process_time(), training.playing
    for _ in range(iterations):
        next(training.reports)
    wall, cpu, playing = time.perf_counter() - wall, time.process_time() - cpu, training.playing - playing
    steps = iterations * find_recipe(recipe).config.ppo.batch_size
    return Figure(recipe, threads, way, steps / wall, steps / cpu, steps / playing)


def middle(blocks: list[Figure]) -> Figure:
    first = blocks[0]
    names = ("steps_per_second", "steps_per_cpu_second", "played_per_cpu_second")
    return Figure(
        first.recipe, first.threads, first.way, *(median(getattr(block, name) for block in blocks) for name in names)
    )


def table(figures: list[Figure]) -> str:
    lines = [
        "| recipe | threads | worlds stepped | steps/s | steps/CPU s | steps/CPU s of playing |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.recipe} | {one.threads} | {one.way} | {one.steps_per_second:,.0f} | {one.steps_per_cpu_second:,.0f} | "
        f"{one.played_per_cpu_second:,.0f} |"
        for one in figures
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
