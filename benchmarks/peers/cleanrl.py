"""CleanRL's own ppo.py, not a letter changed: `python -m peers.cleanrl PATH`.

It is read from outside: it prints a line `SPS: ...` after each update, and one for each episode. It also writes
TensorBoard files, as it always does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from peers.protocol import Meter, read_job

if TYPE_CHECKING:
    from peers.settings import Setting

EPISODE = re.compile(r"episodic_return=\[?\s*([\d.]+)")
UPDATED = "SPS:"


def main(given: Path) -> None:
    job = read_job()
    script = given if given.is_file() else given / "cleanrl" / "ppo.py"
    if not script.is_file():
        sys.exit(f"there is no {script}: hand over a CleanRL checkout or its ppo.py")
    names = ("torch", "gymnasium", "numpy", "tyro")
    meter = Meter(job, **{name: version(name) for name in names})
    meter.begin()
    words = [sys.executable, str(script), *arguments(job.setting, job.seed)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        finished: list[float] = []
        updates, goes_on = 0, True
        for line in child.stdout:
            finished += [float(found) for found in EPISODE.findall(line)]
            if line.startswith(UPDATED) and goes_on:
                updates += 1
                goes_on = meter.update(updates * job.setting.batch_size, finished)
                finished = []
                if not goes_on:
                    child.terminate()
    if updates == 0:
        sys.exit(f"{script.name} ended with {child.returncode} before its first update")
    meter.finish()


def arguments(setting: Setting, seed: int) -> list[str]:
    numbers = {
        "env-id": setting.env_id,
        "seed": seed,
        "total-timesteps": setting.total_steps,
        "num-envs": setting.env_count,
        "num-steps": setting.horizon,
        "num-minibatches": setting.batch_size // setting.minibatch_size,
        "update-epochs": setting.epochs,
        "learning-rate": setting.learning_rate,
        "gamma": setting.gamma,
        "gae-lambda": setting.gae_lambda,
        "clip-coef": setting.clip,
        "ent-coef": setting.entropy_coefficient,
        "vf-coef": setting.value_coefficient,
        "max-grad-norm": setting.max_grad_norm,
    }
    flags = {"anneal-lr": setting.rate_falls, "clip-vloss": setting.clip_value_loss, "cuda": False}
    return [
        *(word for name, value in numbers.items() for word in (f"--{name}", str(value))),
        *(f"--{name}" if is_on else f"--no-{name}" for name, is_on in flags.items()),
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
