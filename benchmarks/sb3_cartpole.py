"""PPO on CartPole beside Stable-Baselines3: how fast, and how well, at equal settings and steps.

    make bench-sb3
    python benchmarks/sb3_cartpole.py --steps 4096 --seeds 1 --out /tmp/bench    # a small try

Settings are CleanRL's for CartPole (the defaults of `TrainConfig`). The two are taken in turns, seed by seed, each in
a process of its own with one torch thread, after one iteration to warm up. Ours is the worker as a user runs it, with
checkpoints, metrics.db, TensorBoard and console, and its clock includes making the run and closing it. Theirs is
`PPO.learn` alone, with no logging.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median
from typing import Any

ENV_ID = "CartPole-v1"
SIDES = ("palaestra", "stable-baselines3")
EVALUATION_SEEDS = range(1_000_000, 1_000_020)
LAST_EPISODES = 100
WARM_UP_STEPS = 512  # one iteration before the clock starts: imports and first allocations are not training
ROOT = Path(__file__).parents[1]


class Stopwatch:
    """Seconds of wall time, and of this process's CPU time over all its threads."""

    def __enter__(self) -> Stopwatch:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu


def train_palaestra(steps: int, seed: int) -> dict[str, Any]:
    from palaestra.api import evaluate, train
    from palaestra.runs.metrics import MetricsReader

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        train(run="warm-up", quiet=False, runs_root=root, total_steps=WARM_UP_STEPS)
        with Stopwatch() as watch:
            outcome = train(run="bench", quiet=False, runs_root=root, total_steps=steps, seed=seed)
        with MetricsReader(outcome.directory.metrics_file) as metrics:
            returns = [episode.total_reward for episode in metrics.episodes(limit=LAST_EPISODES)]
        report = evaluate("bench:latest", episodes=len(EVALUATION_SEEDS), seed=EVALUATION_SEEDS[0], runs_root=root)
    return result(outcome.record.agent_step, watch, returns, report.mean)


def train_sb3(steps: int, seed: int) -> dict[str, Any]:
    import gymnasium
    import torch

    torch.set_num_threads(1)
    make_sb3(seed=0).learn(WARM_UP_STEPS)
    model = make_sb3(seed)
    with Stopwatch() as watch:
        model.learn(steps)
    returns = [episode["r"] for episode in model.ep_info_buffer]  # the last 100
    env = gymnasium.make(ENV_ID)
    return result(model.num_timesteps, watch, returns, mean(play(model, env, seed) for seed in EVALUATION_SEEDS))


def make_sb3(seed: int) -> Any:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    return PPO(
        "MlpPolicy",  # two towers of 64, 64 and tanh, orthogonal weights, as ours
        make_vec_env(ENV_ID, n_envs=4, seed=seed),
        n_steps=128,
        batch_size=128,
        n_epochs=4,
        learning_rate=lambda share_left: 2.5e-4 * share_left,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        clip_range_vf=0.2,
        ent_coef=0.01,
        vf_coef=0.5,
        max_grad_norm=0.5,
        seed=seed,
        device="cpu",
    )


def play(model: Any, env: Any, seed: int) -> float:
    observation, _ = env.reset(seed=seed)
    total_reward, ended = 0.0, False
    while not ended:
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        total_reward += float(reward)
        ended = terminated or truncated
    return total_reward


def result(steps: int, watch: Stopwatch, returns: list[float], evaluation: float) -> dict[str, Any]:
    return {
        "steps": steps,
        "wall_seconds": watch.wall,
        "cpu_seconds": watch.cpu,
        "steps_per_second": steps / watch.wall,
        "steps_per_cpu_second": steps / watch.cpu,
        "training_return": mean(returns) if returns else None,
        "evaluation_return": evaluation,
    }


def run_side(side: str, steps: int, seed: int) -> dict[str, Any]:
    """In a fresh process; what it says of itself is the last line of its stdout."""
    words = [sys.executable, __file__, "--child", side, "--steps", str(steps), "--seed", str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{side}, seed {seed}, ended with {done.returncode}:\n{done.stderr}")
    return {"side": side, "seed": seed, **json.loads(done.stdout.splitlines()[-1])}


def compare(steps: int, seeds: int) -> list[dict[str, Any]]:
    rows = []
    for seed in range(1, seeds + 1):
        for side in SIDES if seed % 2 else SIDES[::-1]:  # neither always goes first
            rows.append(run_side(side, steps, seed))
            row = rows[-1]
            print(f"{side:18} seed {seed}: {row['steps_per_second']:7,.0f} steps/s", file=sys.stderr, flush=True)
    return rows


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over seeds of each side, and ours over theirs."""
    names = ("steps_per_second", "steps_per_cpu_second", "training_return", "evaluation_return")
    medians = {
        side: {
            name: median(row[name] for row in rows if row["side"] == side and row[name] is not None) for name in names
        }
        for side in SIDES
    }
    ours, theirs = (medians[side] for side in SIDES)
    return {"medians": medians, "ratios": {name: ours[name] / theirs[name] for name in names[:2]}}


def describe_machine() -> dict[str, Any]:
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    packages = ("palaestra", "stable_baselines3", "torch", "gymnasium", "numpy")
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],  # an honest figure wants an idle machine: near 0
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


PAGE = """# CartPole beside Stable-Baselines3

Written by `make bench-sb3` on {date}: {steps:,} steps, {seeds} seeds, taken in turns, one torch thread each.
{cpu}, {cores} cores, load before {load_before:.2f}.
Palaestra {palaestra}, Stable-Baselines3 {stable_baselines3}, torch {torch}.

Both at CleanRL's settings for CartPole: 4 x 128 steps, minibatches of 128, 4 epochs, learning rate 2.5e-4 falling to 0,
clip 0.2 for policy and value, entropy 0.01, value 0.5, gradient norm 0.5, gamma 0.99, lambda 0.95.
Palaestra is the whole worker with checkpoints, metrics.db, TensorBoard and console;
Stable-Baselines3 is `PPO.learn` without logging.

| | seed | steps/s | steps per CPU second | return, last 100 training episodes | return, 20 episodes after |
|---|---|---|---|---|---|
{table}

Ours over theirs, medians: **{wall_ratio:.2f}** in steps per second, **{cpu_ratio:.2f}** in steps per CPU second.
"""


def page(data: dict[str, Any]) -> str:
    summary = data["summary"]
    rows = [table_row(row["side"], row["seed"], row) for row in data["rows"]]
    rows += [table_row(f"**{side}**", "**median**", summary["medians"][side]) for side in SIDES]
    return PAGE.format(
        **{name: data[name] for name in ("date", "steps", "seeds")},
        **data["machine"],
        table="\n".join(rows),
        wall_ratio=summary["ratios"]["steps_per_second"],
        cpu_ratio=summary["ratios"]["steps_per_cpu_second"],
    )


def table_row(side: str, seed: object, row: dict[str, Any]) -> str:
    training = "-" if row["training_return"] is None else f"{row['training_return']:.1f}"
    speeds = f"{row['steps_per_second']:,.0f} | {row['steps_per_cpu_second']:,.0f}"
    return f"| {side} | {seed} | {speeds} | {training} | {row['evaluation_return']:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 1 on")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="folder for .json and .md")
    parser.add_argument("--child", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        side = train_palaestra if asked.child == "palaestra" else train_sb3
        print(json.dumps(side(asked.steps, asked.seed)))
        return
    machine = describe_machine()
    rows = compare(asked.steps, asked.seeds)
    data = {
        "schema_version": 1,
        "date": time.strftime("%Y-%m-%d"),
        "steps": asked.steps,
        "seeds": asked.seeds,
        "machine": machine,
        "summary": summarize(rows),
        "rows": rows,
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "sb3_cartpole.json").write_text(json.dumps(data, indent=2) + "\n")
    (asked.out / "sb3_cartpole.md").write_text(page(data))
    print(page(data))


if __name__ == "__main__":
    main()
