"""What several processes bring to an evaluation, and what an evaluation costs the training that it runs beside.

    python benchmarks/evaluation.py
    python benchmarks/evaluation.py --rounds 1 --episodes 4 --steps 4096 --out /tmp/bench    # a small try

Sides are taken in turns. Processes are started and have played a batch before the clock starts. What an evaluation
costs is seen within one training: iterations during a judgement beside those shortly before and after it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
TASK, ENV_ID = "halfcheetah", "HalfCheetah-v5"  # 1,000 steps an episode, most of the time in MuJoCo
INTERVAL = 40  # iterations between checkpoints, and between judgements
EPISODES_BESIDE = 5  # so that judging takes about half of the time


def episodes_per_second(root: Path, workers: int, episodes: int) -> float:
    from palaestra.evaluation.session import EvaluationOptions, EvaluationSession
    from palaestra.evaluation.targets import load_policy_target

    asked = EvaluationOptions(episodes=episodes, workers=workers)
    with EvaluationSession(load_policy_target("judged:latest", root), asked) as session:
        session.evaluate(0)
        began = time.perf_counter()
        report = session.evaluate(1)
        return len(report.episodes) / (time.perf_counter() - began)


def measure_workers(rounds: int, episodes: int) -> dict[str, list[float]]:
    from palaestra.api import train

    rates: dict[str, list[float]] = {"1": [], "2": []}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        train(TASK, run="judged", runs_root=root, total_steps=1)
        for _ in range(rounds):
            for workers, found in rates.items():
                found.append(episodes_per_second(root, int(workers), episodes))
    return rates


def measure_beside(steps: int) -> list[dict[str, float]]:
    """Of every judgement: how long the training's iterations took meanwhile, and how long those around it."""
    from palaestra.api import train
    from palaestra.runs.journal import read_journal
    from palaestra.runs.metrics import MetricsReader

    settings = {
        "total_steps": steps,
        "checkpoints": {"save_interval": INTERVAL},
        "evaluate_interval": INTERVAL,
        "evaluation": {"episodes": EPISODES_BESIDE},
    }
    with tempfile.TemporaryDirectory() as folder:
        directory = train("cartpole", run="judged", runs_root=Path(folder), **settings).directory
        with MetricsReader(directory.metrics_file) as metrics:
            ends = ends_of_iterations([(point.step, point.value) for point in metrics.steps()])
        entries = list(read_journal(directory.journal_file))
    return compare(ends, judgements([(entry.event, entry.at) for entry in entries]))


def ends_of_iterations(samples: list[tuple[int, float]]) -> list[float]:
    """A judgement's sample comes after the training's of its step."""
    first: dict[int, float] = {}
    for step, at in samples:
        first.setdefault(step, at)
    return [first[step] for step in sorted(first)]


def judgements(events: list[tuple[str, float]]) -> list[tuple[float, float]]:
    began = [at for event, at in events if event == "eval.started"]
    ended = [at for event, at in events if event == "eval.batch"]
    return list(zip(began, ended, strict=True))


def compare(ends: list[float], windows: list[tuple[float, float]]) -> list[dict[str, float]]:
    """Iterations that were half inside count for neither side; nor do those of a checkpoint, which are slow anyway."""
    spans = [pair for number, pair in enumerate(pairwise(ends), 2) if (number - 1) % INTERVAL and number % INTERVAL]
    found = []
    for index, (began, ended) in enumerate(windows):
        before = windows[index - 1][1] if index else ends[0]
        after = windows[index + 1][0] if index + 1 < len(windows) else ends[-1]
        inside = [end - start for start, end in spans if began <= start and end <= ended]
        around = [(before, began), (ended, after)]
        outside = [end - start for start, end in spans for low, high in around if low <= start and end <= high]
        if inside and outside:
            found.append({"meanwhile": median(inside), "around": median(outside)})
    return found


def page(result: dict[str, Any]) -> str:
    rates, beside = result["episodes_per_second"], result["iterations_beside"]
    gain = median(rates["2"]) / median(rates["1"])
    costs = sorted(one["meanwhile"] / one["around"] - 1 for one in beside)
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
            f"| CartPole-v1, {result['steps']:,} steps, judged every {INTERVAL} iterations | ms an iteration, median |",
            "|---|---|",
            f"| while a checkpoint was judged | {1e3 * median(one['meanwhile'] for one in beside):.2f} |",
            f"| before and after that | {1e3 * median(one['around'] for one in beside):.2f} |",
            "",
            (
                f"Over {len(costs)} judgements: **{median(costs):+.1%}** (median; half of them between "
                f"{costs[len(costs) // 4]:+.1%} and {costs[3 * len(costs) // 4]:+.1%})."
            ),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300_000)
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
        "iterations_beside": measure_beside(asked.steps),
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "evaluation.json").write_text(json.dumps(result, indent=2) + "\n")
    (asked.out / "evaluation.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
