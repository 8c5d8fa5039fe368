"""Palaestra as a user runs it: `palaestra train RECIPE algorithm=...`; `python -m peers.off_policy_ours [torch]`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from peers.off_policy_settings import read_job
from peers.ours import tell, train
from peers.protocol import say_used

if TYPE_CHECKING:
    from peers.off_policy_settings import OffPolicySetting

START_SECONDS = {"native": 3.0, "torch": 6.0}


def main(engine: str) -> None:
    job = read_job()
    folder, began = Path.cwd(), time.time()
    slow_start = job.setting.warm_up_steps / 150 if max(job.setting.hidden) >= 256 else 2.0
    train(words(job.setting, engine, job.seed), folder, job, START_SECONDS[engine] + slow_start)
    tell(folder, job, began)
    say_used()


def words(setting: OffPolicySetting, engine: str, seed: int) -> list[str]:
    """What a user types after `palaestra train`."""
    hidden = "[" + ",".join(str(width) for width in setting.hidden) + "]"
    numbers: dict[str, object] = {
        "env_count": setting.env_count,
        "learning_rate": setting.learning_rate,
        "gamma": setting.gamma,
    }
    if setting.algorithm == "pqn":
        numbers |= {"horizon": setting.horizon, "minibatch_size": setting.batch_size, "update_epochs": setting.epochs}
    else:
        numbers |= {
            "batch_size": setting.batch_size,
            "buffer_size": setting.buffer_size,
            "learning_starts": setting.learning_starts,
            "train_interval": setting.train_interval,
            "gradient_steps": 1,
            "steps_per_iteration": 1000 if max(setting.hidden) < 256 else 100,
        }
    if setting.algorithm == "dqn":
        numbers["target_interval"] = setting.target_interval
    return [
        setting.recipe,
        f"algorithm={setting.algorithm}",
        "run=peer",
        f"engine={engine}",
        f"seed={seed}",
        f"total_steps={setting.total_steps}",
        f"policy.settings.hidden={hidden}",
        *(f"{setting.algorithm}.{name}={value}" for name, value in numbers.items()),
    ]


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "native")
