"""CleanRL's dqn.py or pqn.py, unmodified: `python -m peers.off_policy_cleanrl CHECKOUT`.

It prints `SPS: ...` now and then, each time after as many more steps: every 100 steps that are a multiple of the
training interval for DQN, every iteration for PQN.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from peers.off_policy_settings import read_job
from peers.protocol import Meter

if TYPE_CHECKING:
    from peers.off_policy_settings import OffPolicySetting

STEP = re.compile(r"global_step=(\d+)")  # printed at the end of each episode


def main(checkout: Path) -> None:
    job = read_job()
    script = checkout / "cleanrl" / f"{job.setting.algorithm}.py"
    if not script.is_file():
        sys.exit(f"there is no {script}: name a CleanRL checkout")
    meter = Meter(job, **{name: version(name) for name in ("torch", "gymnasium", "numpy", "tyro")})
    meter.begin()
    words = [sys.executable, str(script), *arguments(job.setting, job.seed)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(checkout)}  # dqn.py imports cleanrl_utils
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        last = 0
        for line in child.stdout:
            found = STEP.search(line)
            if found is None or int(found[1]) == last:
                continue
            last = int(found[1])
            if not meter.update(last, []):
                child.terminate()
                break
        child.stdout.read()
    if last == 0:
        sys.exit(f"{script.name} ended with {child.returncode} before its first episode")
    meter.finish()


def arguments(setting: OffPolicySetting, seed: int) -> list[str]:
    numbers = {
        "env-id": setting.env_id,
        "seed": seed,
        "total-timesteps": setting.total_steps,
        "learning-rate": setting.learning_rate,
        "gamma": setting.gamma,
    }
    if setting.algorithm == "dqn":
        own = {
            "num-envs": setting.env_count,
            "batch-size": setting.batch_size,
            "buffer-size": setting.buffer_size,
            "learning-starts": setting.learning_starts,
            "train-frequency": setting.train_interval,
            "target-network-frequency": setting.target_interval,
        }
    else:
        own = {
            "num-envs": setting.env_count,
            "num-steps": setting.horizon,
            "num-minibatches": setting.env_count * setting.horizon // setting.batch_size,
            "update-epochs": setting.epochs,
        }
    given = [word for name, value in {**numbers, **own}.items() for word in (f"--{name}", str(value))]
    return [*given, "--no-cuda"]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
