"""Judging from Python: a suite of simulations, several processes, and what a training says of itself meanwhile.

    python examples/judge_in_python.py

Cells of a notebook would be the same lines.
"""

from __future__ import annotations

import palaestra
from palaestra.runs.metrics import MetricsReader

SUITE = {
    "plain": {"category": "training"},
    "short": {"category": "speed", "env": {"max_episode_steps": 100}},
    "sutton": {"category": "rewards", "env": {"kwargs": {"sutton_barto_reward": True}}},
}


def main() -> None:
    # Every 5 iterations a spare process judges the checkpoint; training does not wait for it.
    outcome = palaestra.train(
        "cartpole", total_steps=6_000, evaluate_interval=5, evaluation={"episodes": 3, "simulations": SUITE}
    )
    with MetricsReader(outcome.directory.metrics_file) as metrics:
        for point in metrics.series("eval/plain/episodic_return"):
            print(f"judged at step {point.step}: {point.value:.1f}")

    # The same simulations again, with other seeds, played by two processes.
    report = palaestra.evaluate(f"{outcome.record.name}:latest", seed=7, workers=2)
    for one in report.reports:
        print(f"{one.plan.category:>10}  {one.plan.simulation:<8} {one.mean:8.2f} ± {one.std:.2f}")
    print(f"score {report.mean:.2f} over {len(report.episodes)} episodes")


if __name__ == "__main__":
    main()
