"""How many steps of a Python environment are taken in a second, by Gymnasium's vectorisers and by ours.

    python benchmarks/vectorisers.py
    python benchmarks/vectorisers.py --envs 4 --seconds 0.2 --rounds 1 --out /tmp/bench    # a small try

Random actions, drawn before the clock starts; no learning. Every way is opened, warmed and measured in its turn, round
after round, and medians are given. Episodes end and begin within the measured time. The CPU time is that of this
process and all below it. `mujoco.rollout` is MuJoCo's physics alone, without observation, reward, reset or warm start:
a bound for the others, not a vectoriser.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import gymnasium
import mujoco
import mujoco.rollout
import numpy as np
import psutil

from palaestra.config.env import CurriculumConfig, EnvConfig
from palaestra.envs.build import make_vector_envs

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
PREPARED = 64  # arrays of actions that take turns
WARM_STEPS = 20
BASELINE = "gymnasium AsyncVectorEnv"
ENV_ID = "HalfCheetah-v5"


class Gymnasiums:
    def __init__(self, kind: type[Any], count: int) -> None:
        self._envs = kind([lambda: gymnasium.make(ENV_ID)] * count)
        self._envs.reset(seed=0)

    def step(self, actions: np.ndarray) -> None:
        self._envs.step(actions)

    def close(self) -> None:
        self._envs.close()


class Ours:
    def __init__(self, count: int, workers: int, stepping: str) -> None:
        config = EnvConfig(id=ENV_ID, workers=workers, stepping=stepping)
        self._envs = make_vector_envs(config, CurriculumConfig(), count)
        self._out = np.zeros((count, *self._envs.interface.observation_space.shape), np.float32)
        self._envs.reset(list(range(count)), self._out)

    def step(self, actions: np.ndarray) -> None:
        self._envs.step(actions, self._out)

    def close(self) -> None:
        self._envs.close()


class Physics:
    """`mujoco.rollout` from where the last call ended, for as many substeps as a step has"""

    def __init__(self, count: int, threads: int) -> None:
        env: Any = gymnasium.make(ENV_ID).unwrapped
        env.reset(seed=0)
        self._model, self._frames = env.model, env.frame_skip
        self._data = [mujoco.MjData(self._model) for _ in range(threads)]
        self._pool = mujoco.rollout.Rollout(nthread=threads if threads > 1 else 0)
        full = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
        state = np.zeros(mujoco.mj_stateSize(self._model, full))
        mujoco.mj_getState(self._model, env.data, state, full)
        self._state = np.tile(state, (count, 1))

    def step(self, actions: np.ndarray) -> None:
        control = np.repeat(actions[:, None].astype(np.float64), self._frames, axis=1)
        states, _ = self._pool.rollout(self._model, self._data, self._state, control)
        self._state = np.ascontiguousarray(states[:, -1])

    def close(self) -> None:
        self._pool.close()


def ways(count: int) -> dict[str, Callable[[], Any]]:
    vector = gymnasium.vector
    return {
        "gymnasium SyncVectorEnv": lambda: Gymnasiums(vector.SyncVectorEnv, count),
        BASELINE: lambda: Gymnasiums(vector.AsyncVectorEnv, count),
        "in this process": lambda: Ours(count, 0, "copies"),
        "1 worker and this process": lambda: Ours(count, 1, "copies"),
        "2 workers and this process": lambda: Ours(count, 2, "copies"),
        "MuJoCo's batch, 1 thread": lambda: Ours(count, 0, "mujoco"),
        "MuJoCo's batch, 2 threads": lambda: Ours(count, 1, "mujoco"),
        "mujoco.rollout, 2 threads, physics alone": lambda: Physics(count, 2),
    }


def speed(envs: Any, actions: list[np.ndarray], seconds: float) -> dict[str, float]:
    for step in range(WARM_STEPS):
        envs.step(actions[step % PREPARED])
    steps, cpu, began = 0, cpu_seconds(), time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        envs.step(actions[steps % PREPARED])
        steps += 1
    taken = steps * len(actions[0])
    return {"per_second": taken / passed, "cpu_microseconds": 1e6 * (cpu_seconds() - cpu) / taken}


def cpu_seconds() -> float:
    """Of this process and of all below it that live"""
    here = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (here, *here.children(recursive=True)))


def measure(count: int, seconds: float, rounds: int) -> list[dict[str, Any]]:
    chance = np.random.default_rng(1)
    size = gymnasium.make(ENV_ID).action_space.shape
    actions = [chance.uniform(-1, 1, (count, *size)).astype(np.float32) for _ in range(PREPARED)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways(count)}
    for _ in range(rounds):
        for name, opened in ways(count).items():
            with closing(opened()) as envs:
                found[name].append(speed(envs, actions, seconds))
    return summary(found)


def summary(found: dict[str, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """The ratio to Gymnasium's is taken within each round, and its median given."""
    rows = []
    for name, rounds in found.items():
        speeds = [one["per_second"] for one in rounds]
        ratios = [one / base["per_second"] for one, base in zip(speeds, found[BASELINE], strict=True)]
        rows.append(
            {
                "way": name,
                "per_second": median(speeds),
                "slowest": min(speeds),
                "fastest": max(speeds),
                "cpu_microseconds": median(one["cpu_microseconds"] for one in rounds),
                "over_async": median(ratios),
            }
        )
    return rows


PAGE = """# Vectorisers for Python environments

Written by `python benchmarks/vectorisers.py` on {date}. {cpu}, {cores} cores, load before {load_before:.2f}; Gymnasium
{gymnasium}, MuJoCo {mujoco}.

{env}, {envs} environments side by side, random actions, no learning; {rounds} rounds of {seconds:g} s, the ways in
turns. CPU time is that of all processes together.

| way | steps per second, median | slowest to fastest | CPU microseconds per step | over AsyncVectorEnv |
|---|---|---|---|---|
{table}
"""


def page(data: dict[str, Any]) -> str:
    table = "\n".join(
        f"| {row['way']} | **{row['per_second']:,.0f}** | {row['slowest']:,.0f} to {row['fastest']:,.0f} "
        f"| {row['cpu_microseconds']:.0f} | {row['over_async']:.1f} |"
        for row in data["rows"]
    )
    shown = {name: data[name] for name in ("date", "env", "envs", "rounds", "seconds")}
    return PAGE.format(**shown, **data["machine"], table=table)


def describe_machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        **{name: version(name) for name in ("palaestra", "gymnasium", "mujoco")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="folder for .json and .md")
    asked = parser.parse_args()
    data = {
        "schema_version": 1,
        "date": time.strftime("%Y-%m-%d"),
        "env": ENV_ID,
        "envs": asked.envs,
        "rounds": asked.rounds,
        "seconds": asked.seconds,
        "machine": describe_machine(),
        "rows": measure(asked.envs, asked.seconds, asked.rounds),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "vectorisers.json").write_text(json.dumps(data, indent=2) + "\n")
    (asked.out / "vectorisers.md").write_text(page(data))
    print(page(data))


if __name__ == "__main__":
    main()
