"""The native engine beside the torch engine: steps per second, start-up, and how near the arithmetic's limit.

    python benchmarks/engine_speed.py                                  # some minutes; wants a quiet machine
    python benchmarks/engine_speed.py --steps 4096 --repeats 1         # a small try

CartPole with separate 64-64 tanh networks and 4 epochs. `small` is 4 environments x 128 steps with minibatches of 128
(CleanRL's settings), `large` 256 x 64 with 4096. `loop` is the trainer alone; `user` is a training as a user starts it,
with checkpoints, metrics.db, TensorBoard and console, its clock includes making the run and closing it, but not what
the process imports (a short training goes before). Engines and sizes take turns; figures are medians. GFLOPS count the
multiplications and additions of the layers only, over learning time; the peak is torch's product of two 1024 x 1024
matrices on as many threads.
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

import torch
from peers.installing import compile_ours

from palaestra.config.train import TrainConfig
from palaestra.training.state import TrainingState, new_training_state
from palaestra.training.trainer import train

ENGINES = ("native", "torch")
SIZES = {
    "small": {"env_count": 4, "horizon": 128, "minibatch_size": 128, "update_epochs": 4},
    "large": {"env_count": 256, "horizon": 64, "minibatch_size": 4096, "update_epochs": 4},
}
USER = """
import json, sys, time
from pathlib import Path
from palaestra.api import train
settings, root = json.loads(sys.argv[1]), Path(sys.argv[2])
train(run="warm-up", quiet=False, runs_root=root, **{**settings, "total_steps": 512})
wall, cpu = time.perf_counter(), time.process_time()
record = train(run="bench", quiet=False, runs_root=root, **settings).record
print(json.dumps([record.agent_step, time.perf_counter() - wall, time.process_time() - cpu]))
"""
START = ("-m", "palaestra", "train", "cartpole", "run=start", "total_steps=512")


@dataclass(frozen=True)
class Figure:
    engine: str
    size: str
    way: str  # loop, user
    threads: int
    steps_per_second: float
    steps_per_cpu_second: float
    gflops: float = 0.0  # of learning; 0 where it was not measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--steps",
        type=int,
        default=400_000,
        help="of the native engine; torch takes an eighth, and each at least three iterations",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--ways", nargs="+", choices=("loop", "user"), default=["loop", "user"])
    parser.add_argument("--start-up", action="store_true", help="also time whole processes up to one finished update")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file to write")
    asked = parser.parse_args()
    peaks = {threads: gemm_peak(threads) for threads in asked.threads}
    figures = measure(asked)
    told = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
        "gemm_peak_gflops": peaks,
        "figures": [asdict(figure) for figure in figures],
        "start_up_seconds": {engine: start_up(engine) for engine in ENGINES} if asked.start_up else {},
    }
    print(table(figures, peaks))
    for engine, (first, whole) in told["start_up_seconds"].items():
        print(
            f"{engine}: first update finished after {first:.2f} s, two updates and the run closed after {whole:.2f} s"
        )
    if asked.out:
        asked.out.write_text(json.dumps(told, indent=1))
    return 0


def measure(asked: argparse.Namespace) -> list[Figure]:
    """Medians; every combination once per round, so that a disturbance hits all alike."""
    plan = [
        (engine, size, way, threads)
        for threads in asked.threads
        for size in asked.sizes
        for way in asked.ways
        for engine in ENGINES
    ]
    rounds = [[measure_once(*each, asked.steps) for each in plan] for _ in range(asked.repeats)]
    return [
        Figure(
            *plan[index],
            median(each[index].steps_per_second for each in rounds),
            median(each[index].steps_per_cpu_second for each in rounds),
            median(each[index].gflops for each in rounds),
        )
        for index in range(len(plan))
    ]


def measure_once(engine: str, size: str, way: str, threads: int, steps: int) -> Figure:
    batch = SIZES[size]["env_count"] * SIZES[size]["horizon"]
    own_steps = max(steps if engine == "native" else steps // 8, 3 * batch)
    torch.set_num_threads(threads)
    settings = {"engine": engine, "torch_threads": threads, "total_steps": own_steps, "ppo": SIZES[size]}
    return (loop if way == "loop" else user)(engine, size, threads, settings)


def loop(engine: str, size: str, threads: int, settings: dict) -> Figure:
    state = new_training_state(TrainConfig(**settings))
    reports = train(state)
    next(reports)  # first allocations are not training
    wall, cpu, before = time.perf_counter(), time.process_time(), state.env_steps
    learning = sum(report.times.learn for report in reports)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    steps = state.env_steps - before
    gflops = flop_per_sample(state) * steps * state.config.ppo.update_epochs / learning / 1e9
    return Figure(engine, size, "loop", threads, steps / wall, steps / cpu, gflops)


def user(engine: str, size: str, threads: int, settings: dict) -> Figure:
    """In a process of its own, which loads only what a training loads: torch, here, is ours."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", USER, json.dumps(settings), folder]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
    steps, wall, cpu = json.loads(done.stdout)
    return Figure(engine, size, "user", threads, steps / wall, steps / cpu)


def flop_per_sample(state: TrainingState) -> float:
    """Forward, slopes of weights, and slopes of what a layer reads unless that is the observation."""
    inputs = state.algorithm.policy().interface.observation_space.size
    products = [weight.numel() for weight in state.algorithm.policy().parameters() if weight.ndim == 2]
    first = [
        weight.numel()
        for weight in state.algorithm.policy().parameters()
        if weight.ndim == 2 and weight.shape[1] == inputs
    ]
    return 2.0 * (3 * sum(products) - sum(first))


def gemm_peak(threads: int) -> float:
    """GFLOPS; the best of several, because a peak is what is sought."""
    torch.set_num_threads(threads)
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    seconds = []
    for _ in range(8):
        began = time.perf_counter()
        torch.mm(left, right)
        seconds.append(time.perf_counter() - began)
    return 2 * 1024**3 / min(seconds) / 1e9


def start_up(engine: str) -> tuple[float, float]:
    """Seconds to the first finished update and to the end of the process, of the second start: files are cached then.

    `palaestra train cartpole` as a person types it. When an update was finished is what its metrics say.
    """
    compile_ours()
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            began = time.time()
            subprocess.run([sys.executable, *START, f"engine={engine}"], cwd=folder, check=True, capture_output=True)
            seconds = (first_sample_at(Path(folder) / "runs" / "by-name" / "start") - began, time.time() - began)
    return seconds


def first_sample_at(run: Path) -> float:
    with contextlib.closing(sqlite3.connect(run / "metrics.db")) as connection:
        at: float = connection.execute("SELECT min(at) FROM samples").fetchone()[0]
    return at


def table(figures: list[Figure], peaks: dict[int, float]) -> str:
    lines = [
        "| size | way | threads | engine | steps/s | steps/CPU s | GFLOPS | of peak |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in sorted(figures, key=lambda figure: (figure.size, figure.way, figure.threads, figure.engine)):
        speed = f"{one.gflops:.0f} | {one.gflops / peaks[one.threads]:.0%}" if one.gflops else " | "
        lines.append(
            f"| {one.size} | {one.way} | {one.threads} | {one.engine} | {one.steps_per_second:,.0f} | "
            f"{one.steps_per_cpu_second:,.0f} | {speed} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
