"""The eager loop with envpool's C++ environments in place of Gymnasium's: `python -m peers.envpool_loop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import envpool
import numpy as np
import torch

from peers.eager import train
from peers.protocol import Meter, read_job

if TYPE_CHECKING:
    from peers.settings import Setting


class EnvpoolEnvs:
    """They begin anew at the step after the end, whose action counts for nothing; it is counted as a step."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._envs = envpool.make(
            setting.env_id, env_type="gymnasium", num_envs=setting.env_count, num_threads=setting.cores, seed=seed
        )
        self.observation_size = int(np.prod(self._envs.observation_space.shape))
        self.action_space = self._envs.action_space
        self._returns = np.zeros(setting.env_count)

    def reset(self, seed: int) -> np.ndarray:  # noqa: ARG002 - they take it when they are made
        return self._envs.reset()[0]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]]:
        seen, rewards, terminated, truncated, _ = self._envs.step(actions)
        ended = np.logical_or(terminated, truncated)
        self._returns += rewards
        finished = self._returns[ended].tolist()
        self._returns[ended] = 0.0
        return seen, rewards, ended, finished


def main() -> None:
    job = read_job()
    meter = Meter(job, envpool=envpool.__version__, torch=torch.__version__)
    np.random.seed(job.seed)
    train(job, EnvpoolEnvs(job.setting, job.seed), meter)


if __name__ == "__main__":
    main()
