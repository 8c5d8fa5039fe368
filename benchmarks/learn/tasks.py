"""What is learned, for how long, how often, and how both sides are evaluated.

The peer's settings are the public tuned ones of RL Zoo, translated into Stable-Baselines3's words. Where the
Zoo names an older version of an environment (LunarLander-v2, HalfCheetah-v4) its settings serve the newer one. The Zoo
does not know the memory task: there the peer has our settings, as far as RecurrentPPO has them.
"""

from __future__ import annotations

from learn.off_policy_tasks import OFF_POLICY_TASKS
from learn.task import FIVE, THREE, PeerSettings, RecurrentPeerSettings, Task

EVALUATION_SEEDS = tuple(range(1_000_000, 1_000_020))  # one episode each, the same for every side and training seed
TRAINING_WINDOW = 100  # the last episodes of training that are averaged as a second measure

WIDE = {"pi": [256, 256], "vf": [256, 256]}

PPO_TASKS = {
    "cartpole": Task(
        env_id="CartPole-v1",
        recipe="cartpole",
        total_steps=100_000,
        seeds=FIVE,
        peer_seeds=(1, 2, 3, 4, 5),
        peer=PeerSettings(
            env_count=8,
            ppo={
                "n_steps": 32,
                "batch_size": 256,
                "gae_lambda": 0.8,
                "gamma": 0.98,
                "n_epochs": 20,
                "ent_coef": 0.0,
                "learning_rate": {"linear": 1e-3},
                "clip_range": {"linear": 0.2},
            },
        ),
    ),
    "pendulum": Task(
        env_id="Pendulum-v1",
        recipe="pendulum",
        total_steps=100_000,
        seeds=FIVE,
        peer_seeds=(1, 2, 3, 4, 5),
        peer=PeerSettings(
            env_count=4,
            ppo={
                "n_steps": 1024,
                "gae_lambda": 0.95,
                "gamma": 0.9,
                "n_epochs": 10,
                "ent_coef": 0.0,
                "learning_rate": 1e-3,
                "clip_range": 0.2,
                "use_sde": True,
                "sde_sample_freq": 4,
            },
        ),
    ),
    "acrobot": Task(
        env_id="Acrobot-v1",
        recipe="acrobot",
        total_steps=200_000,
        seeds=FIVE,
        peer_seeds=(1, 2, 3, 4, 5),
        peer=PeerSettings(
            env_count=16,
            ppo={"n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
            normalize=True,
        ),
    ),
    "lunarlander": Task(
        env_id="LunarLander-v3",
        recipe="lunarlander",
        total_steps=500_000,
        seeds=THREE,
        peer_seeds=(1, 2, 3),
        peer=PeerSettings(
            env_count=16,
            ppo={
                "n_steps": 1024,
                "batch_size": 64,
                "gae_lambda": 0.98,
                "gamma": 0.999,
                "n_epochs": 4,
                "ent_coef": 0.01,
            },
        ),
    ),
    "halfcheetah": Task(
        env_id="HalfCheetah-v5",
        recipe="halfcheetah",
        total_steps=300_000,
        seeds=THREE,
        peer_seeds=(1, 2, 3),
        peer=PeerSettings(
            env_count=1,
            ppo={
                "n_steps": 512,
                "batch_size": 64,
                "gamma": 0.98,
                "learning_rate": 2.0633e-05,
                "ent_coef": 0.000401762,
                "clip_range": 0.1,
                "n_epochs": 20,
                "gae_lambda": 0.92,
                "max_grad_norm": 0.8,
                "vf_coef": 0.58096,
            },
            policy={"log_std_init": -2.0, "ortho_init": False, "activation_fn": "ReLU", "net_arch": WIDE},
            normalize=True,
        ),
    ),
    "recall": Task(
        env_id="palaestra/Recall-v0",
        recipe="recall",
        total_steps=240_000,
        seeds=FIVE,
        peer_seeds=(1, 2, 3, 4, 5),
        digits=2,
        peer=RecurrentPeerSettings(
            env_count=16,
            ppo={
                "n_steps": 128,
                "batch_size": 512,
                "n_epochs": 4,
                "learning_rate": 3e-4,
                "ent_coef": 0.01,
            },
            policy={"lstm_hidden_size": 64},
        ),
    ),
}

TASKS: dict[str, Task] = {**PPO_TASKS, **OFF_POLICY_TASKS}
