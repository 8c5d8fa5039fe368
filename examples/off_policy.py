"""DQN, PQN, SAC and TD3, each trained for a moment, evaluated, and acting on one observation.

    python examples/off_policy.py            # all four
    python examples/off_policy.py sac        # one of them

A recipe knows settings for several algorithms; `palaestra recipes` lists them. These trainings are too short to learn.
"""

from __future__ import annotations

import sys

import gymnasium

import palaestra

TASKS = {"dqn": "cartpole", "pqn": "cartpole", "sac": "pendulum", "td3": "pendulum"}
SHORT = {
    "dqn": {"total_steps": 2_000},
    "pqn": {"total_steps": 2_048},
    "sac": {"total_steps": 1_000, "sac": {"learning_starts": 500}},
    "td3": {"total_steps": 1_000, "td3": {"learning_starts": 500}},
}


def main(algorithms: list[str]) -> None:
    for algorithm in algorithms:
        outcome = palaestra.train(TASKS[algorithm], algorithm=algorithm, run=f"short-{algorithm}", **SHORT[algorithm])
        report = palaestra.evaluate(f"short-{algorithm}:latest", episodes=3)
        policy = palaestra.load_policy(f"short-{algorithm}:latest")
        env = gymnasium.make(policy.checkpoint.env["id"])
        action = policy.act(env.reset(seed=1)[0])
        env.close()
        print(f"{algorithm}: {outcome.record.agent_step} steps, return {report.mean:.1f}, first action {action}")


if __name__ == "__main__":
    main(sys.argv[1:] or list(TASKS))
