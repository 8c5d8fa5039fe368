"""Training, judging and listing runs from Python; a notebook needs no shell.

    python examples/train_in_python.py

Settings are the same words as on the command line; `ppo={"gamma": 0.98}` and `**{"ppo.gamma": 0.98}` mean one thing.
"""

from __future__ import annotations

import palaestra


def main() -> None:
    outcome = palaestra.train("cartpole", total_steps=10_000, seed=3, ppo={"gamma": 0.98})
    name = outcome.record.name
    print(f"{name}: {outcome.record.agent_step} steps, return {outcome.metrics['charts/episodic_return']:.1f}")

    report = palaestra.evaluate(f"{name}:latest", episodes=5)
    print(f"judged over {len(report.episodes)} episodes: {report.mean:.1f} ± {report.std:.1f}")

    print("runs here, newest first:", ", ".join(record.name for record in palaestra.runs()))


if __name__ == "__main__":
    main()
