"""Sample Factory's asynchronous PPO: `python -m peers.factory`. Processes that play, act, learn and look on."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

from peers.protocol import Meter, read_job

if TYPE_CHECKING:
    from peers.settings import Setting


class Told(AlgoObserver):
    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def on_start(self, runner: Runner) -> None:  # noqa: ARG002 - their interface
        self._meter.begin()

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:  # noqa: ARG002
        steps = sum(runner.env_steps.values())
        if steps and not self._meter.update(steps, []):
            runner.cfg.train_for_seconds = -1  # it looks there right after this; its own count of seconds stays at 0


def make_env(name: str, cfg: Any = None, env_config: Any = None, render_mode: str | None = None) -> gymnasium.Env:  # noqa: ARG001
    return gymnasium.make(name, render_mode=render_mode)


def main() -> None:
    job = read_job()
    meter = Meter(job, **{name.replace("-", "_"): version(name) for name in ("sample-factory", "torch", "gymnasium")})
    register_env(job.setting.env_id, make_env)
    words = arguments(job.setting, job.seed)
    parser, _ = parse_sf_args(words)
    _, runner = make_runner(parse_full_cfg(parser, words))
    runner.register_observer(Told(meter))
    if status := runner.init() or runner.run():
        sys.exit(f"Sample Factory ended with status {status}")
    meter.finish()


def arguments(setting: Setting, seed: int) -> list[str]:
    told = {
        "algo": "APPO",
        "env": setting.env_id,
        "experiment": "peer",
        "train_dir": str(Path.cwd() / "train"),
        "device": "cpu",
        "seed": seed,
        "num_workers": 1,
        "num_envs_per_worker": setting.env_count,
        "rollout": setting.horizon,
        "batch_size": setting.minibatch_size,
        "num_batches_per_epoch": setting.batch_size // setting.minibatch_size,
        "num_epochs": setting.epochs,
        "train_for_env_steps": setting.total_steps,
        "learning_rate": setting.learning_rate,
        "lr_schedule": "constant",  # it knows no falling one
        "gamma": setting.gamma,
        "gae_lambda": setting.gae_lambda,
        "ppo_clip_ratio": setting.clip,
        "ppo_clip_value": setting.clip,
        "exploration_loss_coeff": setting.entropy_coefficient,
        "value_loss_coeff": setting.value_coefficient / 2,
        "max_grad_norm": setting.max_grad_norm,
        "adam_eps": 1e-5,
        "normalize_input": False,
        "normalize_returns": False,
        "use_rnn": False,
        "actor_critic_share_weights": False,
        "nonlinearity": "tanh",
        "serial_mode": False,
    }
    return [*(f"--{name}={value}" for name, value in told.items()), "--encoder_mlp_layers", "64", "64"]


if __name__ == "__main__":
    main()
