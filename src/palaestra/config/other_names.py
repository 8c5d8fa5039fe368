"""What Stable-Baselines3, RL Zoo, CleanRL and RLlib call a setting, and what it is called here.

A user who types `n_envs=8` or `--lr 3e-4` is told the key of ours instead of one that is merely spelled alike.
"""

from __future__ import annotations

OTHER_NAMES: dict[str, str] = {
    # optimisation
    "lr": "ppo.learning_rate",
    "learning_rate": "ppo.learning_rate",
    "anneal_lr": "ppo.learning_rate.kind",
    "lr_schedule": "ppo.learning_rate.kind",
    "batch_size": "ppo.minibatch_size",
    "minibatch_size": "ppo.minibatch_size",
    "num_minibatches": "ppo.minibatch_size",
    "sgd_minibatch_size": "ppo.minibatch_size",
    "n_epochs": "ppo.update_epochs",
    "num_epochs": "ppo.update_epochs",
    "update_epochs": "ppo.update_epochs",
    "num_sgd_iter": "ppo.update_epochs",
    "max_grad_norm": "ppo.max_grad_norm",
    "grad_clip": "ppo.max_grad_norm",
    "optimizer": "ppo.optimizer",
    "weight_decay": "ppo.optimizer.weight_decay",
    "adam_eps": "ppo.optimizer.epsilon",
    # rollouts
    "n_envs": "ppo.env_count",
    "num_envs": "ppo.env_count",
    "n_env": "ppo.env_count",
    "n_steps": "ppo.horizon",
    "num_steps": "ppo.horizon",
    "rollout_length": "ppo.horizon",
    "unroll_length": "ppo.horizon",
    "rollout_fragment_length": "ppo.horizon",
    "bptt_horizon": "ppo.segment_length",
    "bptt_length": "ppo.segment_length",
    "n_timesteps": "total_steps",
    "timesteps": "total_steps",
    "total_timesteps": "total_steps",
    "num_timesteps": "total_steps",
    # losses
    "gamma": "ppo.gamma",
    "discount": "ppo.gamma",
    "gae_lambda": "ppo.gae_lambda",
    "lambda": "ppo.gae_lambda",
    "clip_range": "ppo.clip",
    "clip_coef": "ppo.clip",
    "clip_param": "ppo.clip",
    "cliprange": "ppo.clip",
    "clip_range_vf": "ppo.clip_value_loss",
    "clip_vloss": "ppo.clip_value_loss",
    "ent_coef": "ppo.entropy_coefficient",
    "entropy_coef": "ppo.entropy_coefficient",
    "entropy_coeff": "ppo.entropy_coefficient",
    "vf_coef": "ppo.value_coefficient",
    "value_coef": "ppo.value_coefficient",
    "vf_loss_coeff": "ppo.value_coefficient",
    "target_kl": "ppo.target_kl",
    "norm_adv": "ppo.normalize_advantages",
    "normalize_advantage": "ppo.normalize_advantages",
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
}

ALGORITHMS = ("ppo",)
ALGORITHM_NAMES = ("algo", "algorithm", "alg", "agent")


def describe_other_name(name: str) -> str:
    """`In Palaestra this is called ppo.env_count.` for `n_envs`, `ppo.n_envs` or `--n-envs`; else an empty string."""
    plain = name.lstrip("-").replace("-", "_").lower()
    leaf = plain.rpartition(".")[2]
    if plain in ALGORITHM_NAMES:
        return f"Algorithms: {', '.join(ALGORITHMS)}. Its settings begin with its name: {ALGORITHMS[0]}.learning_rate."
    for candidate in (plain, leaf):
        if candidate in OTHER_NAMES:
            return f"In Palaestra this is called {OTHER_NAMES[candidate]}. {NOTES.get(candidate, '')}".rstrip()
    return ""
