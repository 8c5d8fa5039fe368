"""Palaestra as a user runs it: `palaestra train ...` with metrics.db, TensorBoard, console and checkpoints.

`python -m peers.ours [torch | compiled | cheap]`. This process only waits; the times are read from the run's
own metrics.db.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from peers.protocol import JOB, Job, is_solved, read_job, say, say_used
from peers.settings import SOLVED_EPISODES

if TYPE_CHECKING:
    from peers.settings import Setting

ENGINES = {
    "native": ["engine=native"],
    "torch": ["engine=torch"],
    "compiled": ["engine=torch", "policy.compile=true"],
    "cheap": ["engine=native"],
}
CELLS = {"cheap": "mingru"}  # of a setting with memory; the others have an LSTM
START_SECONDS = {"compiled": 60.0}  # what starting may take before time is up
USUAL_START_SECONDS = 5.0
CTRL_C = 130


def main(engine: str) -> None:
    job = read_job()
    folder = Path.cwd()
    began = time.time()
    train(words(job.setting, engine, job.seed), folder, job, START_SECONDS.get(engine, USUAL_START_SECONDS))
    tell(folder, job, began)
    say_used()


def words(setting: Setting, engine: str, seed: int) -> list[str]:
    """What a user types after `palaestra train`."""
    recipe = ["cartpole"] if setting.env_id == "CartPole-v1" else [f"env.id={setting.env_id}"]
    numbers = {
        "env_count": setting.env_count,
        "horizon": setting.horizon,
        "minibatch_size": setting.minibatch_size,
        "update_epochs": setting.epochs,
        "learning_rate": schedule(setting.learning_rate, falls=setting.rate_falls),
        "clip": schedule(setting.clip, falls=setting.clip_falls),
        "clip_value_loss": str(setting.clip_value_loss).lower(),
        "gamma": setting.gamma,
        "gae_lambda": setting.gae_lambda,
        "entropy_coefficient": setting.entropy_coefficient,
        "value_coefficient": setting.value_coefficient,
        "max_grad_norm": setting.max_grad_norm,
    }
    workers = ["env.workers=1"] if setting.cores > 1 and setting.env_id != "CartPole-v1" else []
    return [
        *recipe,
        "run=peer",
        f"total_steps={setting.total_steps}",
        f"seed={seed}",
        f"torch_threads={setting.cores}",
        *workers,
        *network(setting, engine),
        *ENGINES[engine],
        *(f"ppo.{name}={value}" for name, value in numbers.items()),
    ]


def network(setting: Setting, engine: str) -> list[str]:
    if not setting.memory:
        return []
    settings = {"hidden": f"[{setting.memory}]", "size": setting.memory, "memory.type": CELLS.get(engine, "lstm")}
    return ["policy.graph=memory", *(f"policy.settings.{name}={value}" for name, value in settings.items())]


def schedule(start: float, *, falls: bool) -> str:
    return f"{{start: {start}, end: 0, kind: linear}}" if falls else str(start)


def train(settings: list[str], folder: Path, job: Job, start_seconds: float) -> None:
    """To the end, or until the time is up: then Ctrl-C, after which it saves and leaves."""
    program = Path(sys.executable).with_name("palaestra")
    console = folder / "console.txt"
    environment = {name: value for name, value in os.environ.items() if name not in {JOB, "PYTHONPATH"}}
    with console.open("w") as stream:
        child = subprocess.Popen(
            [program, "train", *settings], cwd=folder, env=environment, stdout=stream, stderr=stream
        )
        try:
            code = child.wait(None if job.setting.until_solved else start_seconds + job.seconds)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            code = child.wait()
    if code not in {0, CTRL_C}:
        sys.exit(f"palaestra train ended with {code}: {console.read_text().strip()[-500:]}")


def tell(folder: Path, job: Job, began: float) -> None:
    from palaestra.runs.metrics import MetricsReader  # only now: it must not take memory or time beside the training

    say("versions", palaestra=version("palaestra"), torch=version("torch"), python=sys.version.split()[0])
    with MetricsReader(folder / "runs" / "by-name" / "peer" / "metrics.db") as metrics:
        samples, episodes = metrics.steps(), metrics.episodes()
    first, last = next(one for one in samples if one.step >= job.setting.warm_up_steps), samples[-1]
    say("started", seconds=samples[0].value - began, steps=samples[0].step)
    returns: deque[float] = deque(maxlen=SOLVED_EPISODES)
    for episode in episodes:
        returns.append(episode.total_reward)
        if is_solved(returns):
            sample = next(one for one in samples if one.step >= episode.env_step)
            say("solved", seconds=sample.value - began, steps=sample.step)
            break
    if last.step > first.step:
        say("measured", steps=last.step - first.step, seconds=last.value - first.value)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "native")
