"""What a W&B that hangs or is dead costs a training: `python benchmarks/wandb_cost.py`.

    python benchmarks/wandb_cost.py --rounds 2 --steps 100_000 --out /tmp/bench     # a small try

`palaestra train cartpole` at CleanRL's settings with the native engine, where an iteration takes less than two
milliseconds and telling anybody of it weighs most. Without W&B, with one that hangs in `init` for ever, and with one
that leaves at once: whole processes in turns, each beginning a round in turn. Steps per second are those
of the run's own metrics.db after a warm-up; ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from live_view import DRAWS, pulled_in
from peers.installing import compile_ours

from palaestra.runs.metrics import MetricsReader

ROOT = Path(__file__).parents[1]
WITHOUT, HANGS, LEAVES = "without W&B", "it hangs", "it leaves at once"
FAKE = """
import os, time
def init(**_given):
    time.sleep(600 if os.environ["FAKE_WANDB"] == "hangs" else 0)
    os._exit(7)
"""
SETTINGS = ("ppo.env_count=4", "ppo.horizon=128", "ppo.minibatch_size=128", "ppo.update_epochs=4", "torch_threads=1")
WARM_UP_STEPS = 30_720  # a tenth of a second: W&B's process starts meanwhile, and for some seconds after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--warm-up", type=int, default=WARM_UP_STEPS, help="steps before the clock starts")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    asked = parser.parse_args()
    compile_ours()
    sides = [WITHOUT, HANGS, LEAVES]
    speeds: dict[str, list[float]] = {side: [] for side in sides}
    load = os.getloadavg()[0]
    for number in range(asked.rounds):
        start = number % len(sides)
        for side in sides[start:] + sides[:start]:
            speeds[side].append(steps_per_second(side, number, asked.steps, asked.warm_up))
    sizes = {"rounds": asked.rounds, "steps": asked.steps, "warm_up": asked.warm_up}
    result = {**sizes, "load_before": load, "steps_per_second": speeds}
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "wandb-cost.json").write_text(json.dumps(result) + "\n")
    (asked.out / "wandb-cost.md").write_text(page(result))
    print(page(result))


def steps_per_second(side: str, seed: int, steps: int, warm_up: int) -> float:
    with tempfile.TemporaryDirectory(prefix="palaestra-wandb-") as folder:
        (Path(folder) / "shims").mkdir()
        (Path(folder) / "shims" / "wandb.py").write_text(FAKE)
        fake = {"PYTHONPATH": f"{folder}/shims", "FAKE_WANDB": "hangs" if side == HANGS else "leaves"}
        wandb = [] if side == WITHOUT else ["loggers.wandb.enabled=true", "loggers.wandb.grace_seconds=0.1"]
        words = ["train", "cartpole", "run=one", f"seed={seed}", f"total_steps={steps}", "engine=native", *SETTINGS]
        subprocess.run(
            [sys.executable, "-m", "palaestra", *words, *wandb, "--quiet"],
            cwd=folder,
            env={**os.environ, **fake},
            stderr=subprocess.DEVNULL,
            check=True,
        )
        with MetricsReader(Path(folder) / "runs" / "by-name" / "one" / "metrics.db") as metrics:
            samples = metrics.steps()
    first, last = next(one for one in samples if one.step >= warm_up), samples[-1]
    return (last.step - first.step) / (last.value - first.value)


def slower(speeds: list[float], alone: list[float]) -> tuple[float, float, float]:
    """The mean of the ratios within rounds, the outermost tenths pulled in, and its 95 % interval by resampling."""
    ratios = np.log(np.array(alone) / np.array(speeds))
    draws = np.random.default_rng(0).choice(ratios, (DRAWS, len(ratios)))
    middle = pulled_in(ratios[None])[0]
    low, high = np.quantile(pulled_in(draws), [0.025, 0.975])
    return tuple(float(np.expm1(number)) for number in (middle, low, high))  # type: ignore[return-value]


def page(result: dict) -> str:
    speeds = result["steps_per_second"]

    def row(side: str) -> str:
        middle, low, high = slower(speeds[side], speeds[WITHOUT])
        more = "" if side == WITHOUT else f"{middle:+.2%} ({low:+.2%} to {high:+.2%})"
        return f"| {side} | {median(speeds[side]):,.0f} | {more} |"

    head = f"""# What W&B costs a training when it does not answer

Written by `python benchmarks/wandb_cost.py`: {result["rounds"]} rounds of {result["steps"]:,} steps each,
timed behind the first {result["warm_up"]:,}; load before {result["load_before"]:.2f}.
CartPole at CleanRL's settings with the native engine, two cores; the mean of the
ratios within rounds, with its 95 % interval. What is wanted is less than 1 %.

| | steps/s, median | slower |
|---|---|---|
"""
    return head + "\n".join(row(side) for side in speeds) + "\n"


if __name__ == "__main__":
    main()
