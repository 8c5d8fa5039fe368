"""How many agents Arena steps in a second, with what they see written out.

    make bench
    python benchmarks/arena_speed.py --steps 64 --repeats 3 --out /tmp/bench    # a small try

The world of `arena.basic`: 24 agents, 25 x 25 cells, a view of 11 x 11, ten pieces of wall, twenty stations, and as
many worlds as its recipe trains in. Actions are random, drawn before the clock starts, and change with every step;
episodes end and begin again within the measured time. The forms are taken in turns, and medians are given over the
repeats. CPU time stands beside wall time because a machine is seldom idle; with one thread the two agree when it is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from palaestra.apps.arena.batch import NativeBatch, make_batch
from palaestra.apps.arena.observe import observation_specs
from palaestra.apps.arena.recipes import basic
from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.tables import ACTIONS

FORMS = ("bytes", "tokens", "box")
PREPARED = 64  # arrays of actions that take turns
ROOT = Path(__file__).parents[1]


class Game:
    """Worlds of one form with their buffers, played at random."""

    def __init__(self, form: str, world_count: int, threads: int) -> None:
        self.form, self.threads = form, threads
        arena = read_settings({**basic.config.env.kwargs, "observation": form})
        self.worlds = make_batch([arena], world_count, threads)
        self.rows = world_count * arena.agents
        specs = observation_specs(arena)
        self.out = (
            {name: np.zeros((self.rows, *spec.shape), spec.dtype) for name, spec in specs.items()}
            if isinstance(specs, dict)
            else np.zeros((self.rows, *specs.shape), specs.dtype)
        )
        self.rewards = np.zeros(self.rows, np.float32)
        generator = np.random.default_rng(1)
        self.actions = [generator.integers(0, len(ACTIONS), self.rows) for _ in range(PREPARED)]
        self.episodes = 0
        self._begin(list(range(world_count)))

    def play(self, steps: int) -> dict[str, float]:
        """Agent-steps per second, of the clock and of the processor."""
        wall, cpu, episodes = time.perf_counter(), time.process_time(), self.episodes
        for step in range(steps):
            cut = self.worlds.step(self.actions[step % PREPARED], self.out, self.rewards)
            if cut:
                self._begin(cut)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        played = self.rows * steps
        return {"per_second": played / wall, "per_cpu_second": played / cpu, "episodes": self.episodes - episodes}

    def _begin(self, worlds: list[int]) -> None:
        seeds = range(self.episodes, self.episodes + len(worlds))
        self.worlds.reset(worlds, seeds, [0] * len(worlds), self.out)
        self.episodes += len(worlds)


def measure(world_count: int, steps: int, repeats: int, threads: list[int]) -> list[dict[str, Any]]:
    games = [Game(form, world_count, count) for count in threads for form in FORMS]
    for game in games:
        game.play(PREPARED)  # caches, and the threads are hired
    results: list[list[dict[str, float]]] = [[] for _ in games]
    for _ in range(repeats):
        for game, found in zip(games, results, strict=True):
            found.append(game.play(steps))
    return [summary(game, found) for game, found in zip(games, results, strict=True)]


def summary(game: Game, found: list[dict[str, float]]) -> dict[str, Any]:
    speeds = [each["per_second"] for each in found]
    return {
        "form": game.form,
        "threads": game.threads,
        "per_second": median(speeds),
        "slowest": min(speeds),
        "fastest": max(speeds),
        "per_cpu_second": median(each["per_cpu_second"] for each in found),
        "episodes": int(sum(each["episodes"] for each in found)),
    }


def describe_machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],  # an honest figure wants an idle machine: near 0
        "python": platform.python_version(),
        "palaestra": version("palaestra"),
        "implementation": "compiled" if NativeBatch is not None else "reference in Python",
    }


PAGE = """# Arena's raw speed

Written by `make bench` on {date}. {cpu}, {cores} cores, load before {load_before:.2f}; the {implementation} worlds.

The world of `arena.basic`: 24 agents on 25 x 25 cells with walls and stations, a view of 11 x 11; {worlds} worlds in
one call, {steps} steps, {repeats} repeats in turns. Actions are random and change with every step. New episodes are
part of the time, and so is every observation.
{remark}
| what agents see | threads | million agent-steps per second, median | slowest to fastest | per CPU second, median |
|---|---|---|---|---|
{table}
"""


def page(data: dict[str, Any]) -> str:
    return PAGE.format(
        **{name: data[name] for name in ("date", "worlds", "steps", "repeats")},
        remark=f"\n{data['remark']}\n" if data["remark"] else "",
        **data["machine"],
        table="\n".join(table_row(row) for row in data["rows"]),
    )


def table_row(row: dict[str, Any]) -> str:
    millions = {name: f"{row[name] / 1e6:.2f}" for name in ("per_second", "slowest", "fastest", "per_cpu_second")}
    spread = f"{millions['slowest']} to {millions['fastest']}"
    return (
        f"| {row['form']} | {row['threads']} | **{millions['per_second']}** | {spread} | {millions['per_cpu_second']} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=16)
    parser.add_argument("--steps", type=int, default=1024, help="per repeat; an episode has 256")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="several are measured in turns")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="folder for .json and .md")
    parser.add_argument("--remark", default="", help="what else a reader should know of the machine; goes on the page")
    asked = parser.parse_args()
    data = {
        "schema_version": 1,
        "date": time.strftime("%Y-%m-%d"),
        "worlds": asked.worlds,
        "steps": asked.steps,
        "repeats": asked.repeats,
        "remark": asked.remark,
        "machine": describe_machine(),
        "rows": measure(asked.worlds, asked.steps, asked.repeats, asked.threads),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "arena_speed.json").write_text(json.dumps(data, indent=2) + "\n")
    (asked.out / "arena_speed.md").write_text(page(data))
    print(page(data))


if __name__ == "__main__":
    main()
