"""What several processes bring to an evaluation, and what an evaluation costs the training that it runs beside.

    python benchmarks/evaluation.py
    python benchmarks/evaluation.py --rounds 1 --episodes 4 --steps 4096 --out /tmp/bench    # a small try

Sides are taken in turns. Processes are started and have played a batch before the clock starts. Of a training the time
counts from its first iteration to its last; both sides save at the same epochs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
TASK, ENV_ID = "halfcheetah", "HalfCheetah-v5"  # 1,000 steps an episode, most of the time in MuJoCo
INTERVAL = 20  # iterations between checkpoints, and between judgements


def episodes_per_second(root: Path, workers: int, episodes: int) -> float:
    from palaestra.evaluation.judged import load_judged
    from palaestra.evaluation.local import Asked, Evaluation

    asked = Asked(episodes=episodes, workers=workers)
    with Evaluation(load_judged("judged:latest", root), asked) as evaluation:
        evaluation.judge(0)
        began = time.perf_counter()
        report = evaluation.judge(1)
        return len(report.episodes) / (time.perf_counter() - began)


def measure_workers(rounds: int, episodes: int) -> dict[str, list[float]]:
    from palaestra.api import start_training

    rates: dict[str, list[float]] = {"1": [], "2": []}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        start_training(TASK, {"total_steps": 1}, run="judged", quiet=True, runs_root=root)
        for _ in range(rounds):
            for workers, found in rates.items():
                found.append(episodes_per_second(root, int(workers), episodes))
    return rates


def training_seconds(root: Path, name: str, interval: int, steps: int) -> float:
    from palaestra.api import start_training
    from palaestra.runs.metrics import MetricsReader

    settings = {"total_steps": steps, "checkpoints": {"save_interval": INTERVAL}, "evaluate_interval": interval}
    outcome = start_training("", settings, run=name, quiet=True, runs_root=root)
    with MetricsReader(outcome.directory.metrics_file) as metrics:
        return training_span([(point.step, point.value) for point in metrics.steps()])


def training_span(samples: list[tuple[int, float]]) -> float:
    """Seconds from the first iteration to the last; a judgement's sample comes after the training's of its step."""
    first: dict[int, float] = {}
    for step, at in samples:
        first.setdefault(step, at)
    return max(first.values()) - min(first.values())


def measure_beside(rounds: int, steps: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {"alone": [], "judged": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for side, interval in (("alone", 0), ("judged", INTERVAL)):
                seconds[side].append(training_seconds(Path(folder), f"{side}-{number}", interval, steps))
    return seconds


def page(result: dict[str, Any]) -> str:
    rates, seconds = result["episodes_per_second"], result["training_seconds"]
    gain = median(rates["2"]) / median(rates["1"])
    cost = median(seconds["judged"]) / median(seconds["alone"]) - 1
    return "\n".join(
        [
            "# Evaluation: several processes, and beside a training",
            "",
            f"Written by `python benchmarks/evaluation.py`: {result['rounds']} rounds, taken in turns.",
            f"{result['cores']} cores, load before {result['load_before']:.2f}.",
            "",
            f"| {ENV_ID}, {result['episodes']} episodes | episodes/s, median |",
            "|---|---|",
            f"| 1 process | {median(rates['1']):.3f} |",
            f"| 2 processes | {median(rates['2']):.3f} |",
            "",
            f"Two over one: **{gain:.2f}**.",
            "",
            f"| CartPole-v1, {result['steps']:,} steps, a checkpoint every {INTERVAL} iterations | seconds, median |",
            "|---|---|",
            *(f"| {side} | {median(seconds[side]):.2f} |" for side in seconds),
            "",
            f"Judged over alone: **{cost:+.1%}**.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    asked = parser.parse_args()
    load_before = os.getloadavg()[0]
    result = {
        "rounds": asked.rounds,
        "episodes": asked.episodes,
        "steps": asked.steps,
        "cores": os.cpu_count(),
        "load_before": load_before,
        "episodes_per_second": measure_workers(asked.rounds, asked.episodes),
        "training_seconds": measure_beside(asked.rounds, asked.steps),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "evaluation.json").write_text(json.dumps(result, indent=2) + "\n")
    (asked.out / "evaluation.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
