"""Settings by the names of Stable-Baselines3, RL Zoo, CleanRL and RLlib, for the answer to an unknown key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.config import algorithms
from palaestra.config.keys import list_keys, section_names
from palaestra.config.train import TrainConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

ALGORITHMS = tuple(info.name for info in algorithms.ALGORITHMS)
ALGORITHM_NAMES = ("algo", "alg", "agent")

# Their name -> ours in the section of an algorithm; where algorithms call it differently, every name of ours.
ALGORITHM_KEYS: dict[str, tuple[str, ...]] = {
    # optimisation
    "lr": ("learning_rate",),
    "learning_rate": ("learning_rate",),
    "policy_lr": ("learning_rate",),
    "actor_lr": ("learning_rate",),
    "q_lr": ("critic_learning_rate", "learning_rate"),
    "critic_lr": ("critic_learning_rate", "learning_rate"),
    "anneal_lr": ("learning_rate.kind",),
    "lr_schedule": ("learning_rate.kind",),
    "batch_size": ("minibatch_size", "batch_size"),
    "minibatch_size": ("minibatch_size", "batch_size"),
    "train_batch_size": ("minibatch_size", "batch_size"),
    "num_minibatches": ("minibatch_size",),
    "sgd_minibatch_size": ("minibatch_size",),
    "n_epochs": ("update_epochs",),
    "num_epochs": ("update_epochs",),
    "update_epochs": ("update_epochs",),
    "num_sgd_iter": ("update_epochs",),
    "max_grad_norm": ("max_grad_norm",),
    "grad_clip": ("max_grad_norm",),
    "optimizer": ("optimizer",),
    "weight_decay": ("optimizer.weight_decay",),
    "adam_eps": ("optimizer.epsilon",),
    # collecting steps
    "n_envs": ("env_count",),
    "num_envs": ("env_count",),
    "n_env": ("env_count",),
    "n_steps": ("horizon", "n_step"),
    "num_steps": ("horizon",),
    "rollout_length": ("horizon",),
    "unroll_length": ("horizon",),
    "rollout_fragment_length": ("horizon",),
    "bptt_horizon": ("segment_length",),
    "bptt_length": ("segment_length",),
    "train_freq": ("train_interval",),
    "train_frequency": ("train_interval",),
    "gradient_steps": ("gradient_steps",),
    "utd_ratio": ("gradient_steps",),
    # the replay buffer
    "buffer_size": ("buffer_size",),
    "replay_size": ("buffer_size",),
    "replay_buffer_size": ("buffer_size",),
    "learning_starts": ("learning_starts",),
    "start_steps": ("learning_starts",),
    "random_steps": ("learning_starts",),
    "n_step": ("n_step",),
    "multi_step": ("n_step",),
    "prioritized_replay": ("prioritized.enabled",),
    "per": ("prioritized.enabled",),
    "prioritized_replay_alpha": ("prioritized.alpha",),
    "prioritized_replay_beta0": ("prioritized.beta",),
    "prioritized_replay_eps": ("prioritized.epsilon",),
    # targets
    "tau": ("tau",),
    "polyak": ("tau",),
    "target_update_interval": ("target_interval",),
    "target_network_frequency": ("target_interval",),
    "target_network_update_freq": ("target_interval",),
    "double_q": ("double",),
    "dueling": ("dueling",),
    "policy_delay": ("policy_interval",),
    "policy_frequency": ("policy_interval",),
    "target_policy_noise": ("target_noise",),
    "policy_noise": ("target_noise",),
    "target_noise_clip": ("target_noise_clip",),
    "noise_clip": ("target_noise_clip",),
    "n_critics": ("twin_critics",),
    # exploration
    "exploration_fraction": ("exploration.fraction",),
    "exploration_initial_eps": ("exploration.start",),
    "start_e": ("exploration.start",),
    "eps_start": ("exploration.start",),
    "exploration_final_eps": ("exploration.end",),
    "end_e": ("exploration.end",),
    "eps_finish": ("exploration.end",),
    "exploration_noise": ("exploration_noise",),
    "action_noise": ("exploration_noise",),
    "noise_std": ("exploration_noise",),
    # losses
    "gamma": ("gamma",),
    "discount": ("gamma",),
    "gae_lambda": ("gae_lambda",),
    "lambda": ("gae_lambda", "q_lambda"),
    "q_lambda": ("q_lambda",),
    "clip_range": ("clip",),
    "clip_coef": ("clip",),
    "clip_param": ("clip",),
    "cliprange": ("clip",),
    "clip_range_vf": ("clip_value_loss",),
    "clip_vloss": ("clip_value_loss",),
    "ent_coef": ("entropy_coefficient", "temperature"),
    "entropy_coef": ("entropy_coefficient", "temperature"),
    "entropy_coeff": ("entropy_coefficient", "temperature"),
    "alpha": ("temperature",),
    "autotune": ("temperature",),
    "target_entropy": ("target_entropy",),
    "vf_coef": ("value_coefficient",),
    "value_coef": ("value_coefficient",),
    "vf_loss_coeff": ("value_coefficient",),
    "target_kl": ("target_kl",),
    "norm_adv": ("normalize_advantages",),
    "normalize_advantage": ("normalize_advantages",),
}

# Their name -> ours, whatever the algorithm.
KEYS: dict[str, str] = {
    "n_timesteps": "total_steps",
    "timesteps": "total_steps",
    "total_timesteps": "total_steps",
    "num_timesteps": "total_steps",
    # the environment and the network
    "env_id": "env.id",
    "env_name": "env.id",
    "env_kwargs": "env.kwargs",
    "num_workers": "env.workers",
    "n_workers": "env.workers",
    "vec_env": "env.workers",
    "norm_obs": "policy.normalize_observations",
    "norm_reward": "policy.normalize_returns",
    "normalize": "policy.normalize_observations",
    "net_arch": "policy.settings",
    "hidden_size": "policy.settings",
    "policy_kwargs": "policy.settings",
    # the run
    "exp_name": "run",
    "name": "run",
    "sink": "loggers",
    "tensorboard_log": "loggers.tensorboard",
    "track": "loggers.wandb.enabled",
    "wandb_project_name": "loggers.wandb.project",
    "wandb_project": "loggers.wandb.project",
    "wandb_entity": "loggers.wandb.entity",
    "cuda": "device",
    "save_freq": "checkpoints.save_interval",
    "save_interval": "checkpoints.save_interval",
    "checkpoint_interval": "checkpoints.save_interval",
    "save_replay_buffer": "checkpoints.replay_buffer",
    "eval_freq": "evaluate_interval",
    "eval_interval": "evaluate_interval",
    "n_eval_episodes": "evaluation.episodes",
    "eval_episodes": "evaluation.episodes",
    "pretrained": "initial_weights",
    "load": "initial_weights",
}

# What the key alone does not tell.
NOTES: dict[str, str] = {
    "num_minibatches": "It is the size of a minibatch, not their number.",
    "anneal_lr": "Choose linear or constant.",
    "net_arch": "For policy=mlp: policy.settings.hidden=[64,64].",
    "hidden_size": "For policy=mlp: policy.settings.hidden=[64,64].",
    "policy_kwargs": "For policy=mlp: policy.settings.hidden=[64,64].",
    "cuda": "Choose cpu or cuda.",
    "clip_range_vf": "It is true or false; the range is that of ppo.clip.",
    "autotune": "null: the temperature is learned; a number: it is fixed.",
    "alpha": "null: the temperature is learned; a number: it is fixed.",
    "n_critics": "true: two critics; false: one.",
    "utd_ratio": "Updates each time they are due, every train_interval steps.",
}


def translate_key(name: str, algorithm: str = "") -> str:
    """`In Palaestra this is called dqn.learning_rate.` for `lr`, `dqn.lr` or `--lr`; else an empty string.

    A section in the name decides for which algorithm, else `algorithm`; without either the names of all are given.
    """
    plain = name.lstrip("-").replace("-", "_").lower()
    section, _, leaf = plain.rpartition(".")
    if plain in ALGORITHM_NAMES:
        names = ", ".join(ALGORITHMS)
        return f"Algorithms: {names}. Choose one with algorithm=NAME; its settings are NAME.*."
    for candidate in (plain, leaf):
        found = _keys_for(candidate, section if section in ALGORITHMS else algorithm)
        if found:
            return f"In Palaestra this is called {_listed(found)}. {NOTES.get(candidate, '')}".rstrip()
    return ""


def _keys_for(name: str, algorithm: str) -> list[str]:
    if name in KEYS:
        return [KEYS[name]]
    known = {key.path for key in list_keys(TrainConfig)} | set(section_names(TrainConfig))
    by_algorithm = {
        each: next((f"{each}.{leaf}" for leaf in ALGORITHM_KEYS.get(name, ()) if f"{each}.{leaf}" in known), "")
        for each in ALGORITHMS
    }
    if by_algorithm.get(algorithm):
        return [by_algorithm[algorithm]]
    return [key for key in by_algorithm.values() if key]


def _listed(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{', '.join(keys[:-1])} or {keys[-1]}, by algorithm"
