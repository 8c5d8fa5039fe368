"""RLlib's PPO with one process that plays and learns: `python -m peers.rllib`. Ray's own processes run beside it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from peers.protocol import Meter, read_job
from peers.settings import SOLVED_EPISODES

if TYPE_CHECKING:
    from peers.settings import Setting


def main() -> None:
    job = read_job()
    meter = Meter(job, ray=ray.__version__, torch=torch.__version__)
    torch.set_num_threads(job.setting.cores)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    trainer = config(job.setting, job.seed).build_algo()
    meter.begin()
    goes_on = True
    while goes_on:
        told = trainer.train()
        mean = told["env_runners"].get("episode_return_mean")  # of the last SOLVED_EPISODES
        finished = [mean] * SOLVED_EPISODES if mean is not None else []
        goes_on = meter.update(int(told["num_env_steps_sampled_lifetime"]), finished)
    meter.finish()
    sys.stdout.flush()
    ray.shutdown()


def config(setting: Setting, seed: int) -> PPOConfig:
    falling = [[0, setting.learning_rate], [setting.total_steps, 0.0]]
    return (
        PPOConfig()
        .environment(setting.env_id)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=setting.env_count,
            rollout_fragment_length=setting.horizon,
        )
        .learners(num_learners=0)
        .training(
            train_batch_size_per_learner=setting.batch_size,
            minibatch_size=setting.minibatch_size,
            num_epochs=setting.epochs,
            lr=falling if setting.rate_falls else setting.learning_rate,
            gamma=setting.gamma,
            lambda_=setting.gae_lambda,
            clip_param=setting.clip,
            entropy_coeff=setting.entropy_coefficient,
            vf_loss_coeff=setting.value_coefficient / 2,
            use_kl_loss=False,
            grad_clip=setting.max_grad_norm,
            grad_clip_by="global_norm",
        )
        .rl_module(
            model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
        )
        .reporting(metrics_num_episodes_for_smoothing=SOLVED_EPISODES, min_time_s_per_iteration=0)
        .debugging(seed=seed, log_level="ERROR")
    )


if __name__ == "__main__":
    main()
