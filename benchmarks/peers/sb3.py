"""Stable-Baselines3's PPO, without logging: `python -m peers.sb3 [subproc]`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import gymnasium
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from peers.protocol import Meter, read_job

if TYPE_CHECKING:
    from peers.settings import Setting


class Told(BaseCallback):
    """A rollout begins when the update before it is done."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter
        self._goes_on = True
        self._finished: list[float] = []

    def _on_training_start(self) -> None:
        self._meter.begin()

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            self.tell()

    def _on_step(self) -> bool:
        self._finished += [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        return self._goes_on

    def tell(self) -> None:
        self._goes_on = self._meter.update(self.num_timesteps, self._finished)
        self._finished = []


def main(kind: str) -> None:
    job = read_job()
    setting = job.setting
    torch.set_num_threads(setting.cores)
    meter = Meter(
        job,
        stable_baselines3=stable_baselines3.__version__,
        torch=torch.__version__,
        gymnasium=gymnasium.__version__,
    )
    processes = SubprocVecEnv if kind == "subproc" else DummyVecEnv
    envs = make_vec_env(setting.env_id, n_envs=setting.env_count, seed=job.seed, vec_env_cls=processes)
    told = Told(meter)
    model = PPO("MlpPolicy", envs, seed=job.seed, device="cpu", **arguments(setting))
    model.learn(setting.total_steps, callback=told)
    if model.num_timesteps >= setting.total_steps:
        told.tell()  # the last update: no rollout begins after it
    meter.finish()
    envs.close()


def arguments(setting: Setting) -> dict[str, Any]:
    return {
        "n_steps": setting.horizon,
        "batch_size": setting.minibatch_size,
        "n_epochs": setting.epochs,
        "learning_rate": schedule(setting.learning_rate, falls=setting.rate_falls),
        "clip_range": schedule(setting.clip, falls=setting.clip_falls),
        "clip_range_vf": schedule(setting.clip, falls=setting.clip_falls) if setting.clip_value_loss else None,
        "gamma": setting.gamma,
        "gae_lambda": setting.gae_lambda,
        "ent_coef": setting.entropy_coefficient,
        "vf_coef": setting.value_coefficient / 2,  # theirs weighs the whole squared error
        "max_grad_norm": setting.max_grad_norm,
    }


def schedule(start: float, *, falls: bool) -> Any:
    """Stable-Baselines3 hands in what is left of the training, from 1 down to 0."""
    return (lambda left: left * start) if falls else start


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "plain")
