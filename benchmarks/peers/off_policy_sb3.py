"""Stable-Baselines3's or SBX's DQN, SAC and TD3, without logging: `python -m peers.off_policy_sb3 [sbx]`."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import gymnasium
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback

from peers.off_policy_settings import read_job
from peers.protocol import Meter

if TYPE_CHECKING:
    from peers.off_policy_settings import OffPolicySetting

STEPS_A_REPORT = 100


class ReportSteps(BaseCallback):
    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter

    def _on_training_start(self) -> None:
        self._meter.begin()

    def _on_step(self) -> bool:
        return self.num_timesteps % STEPS_A_REPORT != 0 or self._meter.update(self.num_timesteps, [])


def main(package: str) -> None:
    job = read_job()
    setting = job.setting
    torch.set_num_threads(setting.cores)
    library = importlib.import_module(package)
    meter = Meter(job, **{package: library.__version__}, gymnasium=gymnasium.__version__)
    algorithm = getattr(library, setting.algorithm.upper())
    model = algorithm("MlpPolicy", gymnasium.make(setting.env_id), seed=job.seed, device="cpu", **arguments(setting))
    model.learn(setting.total_steps, callback=ReportSteps(meter))
    meter.finish()


def arguments(setting: OffPolicySetting) -> dict[str, Any]:
    common = {
        "learning_rate": setting.learning_rate,
        "batch_size": setting.batch_size,
        "buffer_size": setting.buffer_size,
        "learning_starts": setting.learning_starts,
        "train_freq": setting.train_interval,
        "gamma": setting.gamma,
        "policy_kwargs": {"net_arch": list(setting.hidden)},
    }
    if setting.algorithm == "dqn":
        exploration = {"exploration_fraction": 0.5, "exploration_final_eps": 0.05}
        return {**common, "target_update_interval": setting.target_interval, **exploration}
    return common


if __name__ == "__main__":
    main("sbx" if "sbx" in sys.argv[1:] else stable_baselines3.__name__)
