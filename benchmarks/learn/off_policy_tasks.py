"""Tasks of DQN, SAC and TD3, with the peer's settings from RL Zoo.

MuJoCo tasks are stopped at a tenth of the Zoo's budget and have two seeds: a training of the peer takes half an hour.
"""

from __future__ import annotations

from learn.task import FIVE, TWO, OffPolicyPeerSettings, Task

PEER_FIVE, PEER_TWO = (1, 2, 3, 4, 5), (1, 2)
WIDE, TD3_WIDTHS = {"net_arch": [256, 256]}, {"net_arch": [400, 300]}
MUJOCO_TD3 = {"learning_starts": 10_000, "learning_rate": 1e-3, "batch_size": 256, "train_freq": 1, "gradient_steps": 1}

OFF_POLICY_TASKS = {
    "cartpole-dqn": Task(
        env_id="CartPole-v1",
        recipe="cartpole",
        algorithm="dqn",
        total_steps=50_000,
        seeds=FIVE,
        peer_seeds=PEER_FIVE,
        peer=OffPolicyPeerSettings(
            "DQN",
            {
                "learning_rate": 2.3e-3,
                "batch_size": 64,
                "buffer_size": 100_000,
                "learning_starts": 1000,
                "gamma": 0.99,
                "target_update_interval": 10,
                "train_freq": 256,
                "gradient_steps": 128,
                "exploration_fraction": 0.16,
                "exploration_final_eps": 0.04,
            },
            WIDE,
        ),
    ),
    "lunarlander-dqn": Task(
        env_id="LunarLander-v3",
        recipe="lunarlander",
        algorithm="dqn",
        total_steps=100_000,
        seeds=FIVE,
        peer_seeds=PEER_FIVE,
        peer=OffPolicyPeerSettings(
            "DQN",
            {
                "learning_rate": 6.3e-4,
                "batch_size": 128,
                "buffer_size": 50_000,
                "learning_starts": 0,
                "gamma": 0.99,
                "target_update_interval": 250,
                "train_freq": 4,
                "gradient_steps": -1,
                "exploration_fraction": 0.12,
                "exploration_final_eps": 0.1,
            },
            WIDE,
        ),
    ),
    "mountaincar-dqn": Task(
        env_id="MountainCar-v0",
        recipe="mountaincar",
        algorithm="dqn",
        total_steps=120_000,
        seeds=FIVE,
        peer_seeds=PEER_FIVE,
        peer=OffPolicyPeerSettings(
            "DQN",
            {
                "learning_rate": 4e-3,
                "batch_size": 128,
                "buffer_size": 10_000,
                "learning_starts": 1000,
                "gamma": 0.98,
                "target_update_interval": 600,
                "train_freq": 16,
                "gradient_steps": 8,
                "exploration_fraction": 0.2,
                "exploration_final_eps": 0.07,
            },
            WIDE,
        ),
    ),
    "pendulum-sac": Task(
        env_id="Pendulum-v1",
        recipe="pendulum",
        algorithm="sac",
        total_steps=20_000,
        seeds=FIVE,
        peer_seeds=PEER_FIVE,
        peer=OffPolicyPeerSettings("SAC", {"learning_rate": 1e-3}),
    ),
    "pendulum-td3": Task(
        env_id="Pendulum-v1",
        recipe="pendulum",
        algorithm="td3",
        total_steps=20_000,
        seeds=FIVE,
        peer_seeds=PEER_FIVE,
        peer=OffPolicyPeerSettings(
            "TD3",
            {
                "gamma": 0.98,
                "buffer_size": 200_000,
                "learning_starts": 10_000,
                "gradient_steps": 1,
                "train_freq": 1,
                "learning_rate": 1e-3,
            },
            TD3_WIDTHS,
            action_noise=0.1,
        ),
    ),
    "halfcheetah-sac": Task(
        env_id="HalfCheetah-v5",
        recipe="halfcheetah",
        algorithm="sac",
        total_steps=100_000,
        seeds=TWO,
        peer_seeds=PEER_TWO,
        peer=OffPolicyPeerSettings("SAC", {"learning_starts": 10_000}),
    ),
    "halfcheetah-td3": Task(
        env_id="HalfCheetah-v5",
        recipe="halfcheetah",
        algorithm="td3",
        total_steps=100_000,
        seeds=TWO,
        peer_seeds=PEER_TWO,
        peer=OffPolicyPeerSettings("TD3", MUJOCO_TD3, TD3_WIDTHS, action_noise=0.1),
    ),
    "hopper-sac": Task(
        env_id="Hopper-v5",
        recipe="hopper",
        algorithm="sac",
        total_steps=100_000,
        seeds=TWO,
        peer_seeds=PEER_TWO,
        peer=OffPolicyPeerSettings("SAC", {"learning_starts": 10_000}),
    ),
    "hopper-td3": Task(
        env_id="Hopper-v5",
        recipe="hopper",
        algorithm="td3",
        total_steps=100_000,
        seeds=TWO,
        peer_seeds=PEER_TWO,
        peer=OffPolicyPeerSettings("TD3", MUJOCO_TD3, TD3_WIDTHS, action_noise=0.1),
    ),
}
