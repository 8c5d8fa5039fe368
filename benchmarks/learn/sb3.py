"""One training with Stable-Baselines3's PPO, judged: `python -m learn.sb3 JOB RESULT`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from learn.result import Job, Result, write_result
from learn.tasks import EVALUATION_SEEDS, TASKS, TRAINING_WINDOW


def main(job_file: Path, result_file: Path) -> None:
    job = Job(**json.loads(job_file.read_text()))
    torch.set_num_threads(1)
    envs = make_envs(job)
    model = PPO("MlpPolicy", envs, seed=job.seed, device="cpu", **arguments(job.settings))
    started = perf_counter()
    model.learn(job.total_steps)
    result = Result(
        job=job,
        steps=model.num_timesteps,
        returns=(),
        training_return=float(np.mean([episode["r"] for episode in list(model.ep_info_buffer)[-TRAINING_WINDOW:]])),
        seconds=perf_counter() - started,
        versions={"stable_baselines3": stable_baselines3.__version__, "torch": torch.__version__},
    )
    write_result(result_file, replace(result, returns=judge(model, envs, TASKS[job.task].env_id)))


def make_envs(job: Job) -> VecEnv:
    envs: VecEnv = make_vec_env(TASKS[job.task].env_id, n_envs=job.settings["env_count"], seed=job.seed)
    if job.settings["normalize"]:
        return VecNormalize(envs, gamma=job.settings["ppo"]["gamma"])  # as the Zoo does
    return envs


def arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a task as PPO takes them."""
    ppo = {
        name: falling(value["linear"]) if isinstance(value, dict) else value for name, value in settings["ppo"].items()
    }
    policy = dict(settings["policy"])
    if "activation_fn" in policy:
        policy["activation_fn"] = getattr(torch.nn, policy["activation_fn"])
    return {**ppo, "policy_kwargs": policy}


def falling(start: float) -> Any:
    """A line from `start` to 0; Stable-Baselines3 hands in what is left of the budget, from 1 down to 0."""
    return lambda remaining: remaining * start


def judge(model: PPO, envs: VecEnv, env_id: str) -> tuple[float, ...]:
    """One deterministic episode per seed, each in an environment of its own, statistics frozen."""
    return tuple(play(model, envs, env_id, seed) for seed in EVALUATION_SEEDS)


def play(model: PPO, envs: VecEnv, env_id: str, seed: int) -> float:
    env = gymnasium.make(env_id)
    observation, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        seen = envs.normalize_obs(observation) if isinstance(envs, VecNormalize) else observation
        action, _ = model.predict(seen, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    env.close()
    return total


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
