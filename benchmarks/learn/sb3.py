"""One training with Stable-Baselines3 or sb3-contrib's RecurrentPPO, evaluated: `python -m learn.sb3 JOB RESULT`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from learn.result import Job, Result, write_result
from learn.tasks import EVALUATION_SEEDS, TASKS, TRAINING_WINDOW
from palaestra.envs.make import load_plugins

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

PACKAGES = (stable_baselines3, sb3_contrib, torch)
OFF_POLICY: dict[str, type[BaseAlgorithm]] = {"DQN": DQN, "SAC": SAC, "TD3": TD3}


def main(job_file: Path, result_file: Path) -> None:
    job = Job(**json.loads(job_file.read_text()))
    torch.set_num_threads(1)
    envs = make_envs(job)
    model = make_model(job, envs)
    started = perf_counter()
    model.learn(job.total_steps)
    result = Result(
        job=job,
        steps=model.num_timesteps,
        returns=(),
        training_return=float(np.mean([episode["r"] for episode in list(model.ep_info_buffer)[-TRAINING_WINDOW:]])),
        seconds=perf_counter() - started,
        versions={package.__name__: package.__version__ for package in PACKAGES},
    )
    write_result(result_file, replace(result, returns=evaluate(model, envs, TASKS[job.task].env_id)))


def make_envs(job: Job) -> VecEnv:
    load_plugins()  # the memory task is ours
    make = partial(gymnasium.make, TASKS[job.task].env_id)  # by its id alone it would be asked for pictures, too
    envs: VecEnv = make_vec_env(make, n_envs=job.settings["env_count"], seed=job.seed)
    if job.settings["normalize"]:
        return VecNormalize(envs, gamma=job.settings["ppo"]["gamma"])  # as the Zoo does
    return envs


def make_model(job: Job, envs: VecEnv) -> BaseAlgorithm:
    name = job.settings.get("algorithm", "PPO")
    common = {"seed": job.seed, "device": "cpu", **arguments(job.settings)}
    if name == "RecurrentPPO":
        return RecurrentPPO("MlpLstmPolicy", envs, **common)
    if name == "PPO":
        return PPO("MlpPolicy", envs, **common)
    return OFF_POLICY[name]("MlpPolicy", envs, **common, **exploration_noise(job.settings, envs))


def exploration_noise(settings: dict[str, Any], envs: VecEnv) -> dict[str, Any]:
    if settings.get("action_noise") is None:
        return {}
    size = envs.action_space.shape[-1]
    return {"action_noise": NormalActionNoise(np.zeros(size), np.full(size, settings["action_noise"]))}


def arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a task as the peer's class takes them."""
    given = settings["arguments"] if "arguments" in settings else settings["ppo"]
    found = {name: falling(value["linear"]) if isinstance(value, dict) else value for name, value in given.items()}
    policy = dict(settings["policy"])
    if "activation_fn" in policy:
        policy["activation_fn"] = getattr(torch.nn, policy["activation_fn"])
    return {**found, "policy_kwargs": policy}


def falling(start: float) -> Any:
    """A line from `start` to 0; Stable-Baselines3 hands in what is left of the budget, from 1 down to 0."""
    return lambda remaining: remaining * start


def evaluate(model: BaseAlgorithm, envs: VecEnv, env_id: str) -> tuple[float, ...]:
    """One deterministic episode per seed, each in an environment of its own, statistics frozen."""
    return tuple(play(model, envs, env_id, seed) for seed in EVALUATION_SEEDS)


def play(model: BaseAlgorithm, envs: VecEnv, env_id: str, seed: int) -> float:
    env = gymnasium.make(env_id)
    observation, _ = env.reset(seed=seed)
    total, over, memory = 0.0, False, None  # without a memory the policy begins with an empty one
    while not over:
        seen = envs.normalize_obs(observation) if isinstance(envs, VecNormalize) else observation
        action, memory = model.predict(seen, state=memory, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    env.close()
    return total


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
