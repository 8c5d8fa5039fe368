"""DQN, PQN, SAC and TD3: what every peer trains, who takes part, and the ratios that issue and README promise.

Only the standard library: each peer reads this in an environment of its own.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from peers.catalogue import OURS, Peer, Target
from peers.protocol import JOB, Job


@dataclass(frozen=True)
class OffPolicySetting:
    """Adam, one environment unless said otherwise."""

    name: str
    title: str
    algorithm: str  # as our `algorithm=` has it
    env_id: str
    recipe: str  # ours
    hidden: tuple[int, int]
    batch_size: int  # of one update; PQN: of a minibatch
    warm_up_steps: int  # before the clock starts: random actions, and the first updates
    total_steps: int = 500_000
    learning_starts: int = 1_000
    buffer_size: int = 100_000
    train_interval: int = 1
    learning_rate: float = 3e-4
    gamma: float = 0.99
    target_interval: int = 500  # DQN
    env_count: int = 1
    horizon: int = 128  # PQN
    epochs: int = 4  # PQN
    cores: int = 1
    warm_up_updates: int = 1
    until_solved: bool = False


DQN = OffPolicySetting(
    name="dqn",
    title="DQN on CartPole-v1, CleanRL's settings: 120-84, batch 128, an update every 10 steps; one core",
    algorithm="dqn",
    env_id="CartPole-v1",
    recipe="cartpole",
    hidden=(120, 84),
    batch_size=128,
    warm_up_steps=15_000,
    learning_starts=10_000,
    buffer_size=10_000,
    train_interval=10,
    learning_rate=2.5e-4,
    total_steps=2_000_000,
)
PQN = OffPolicySetting(
    name="pqn",
    title="PQN on CartPole-v1, CleanRL's settings: 120-84 with layer normalisation, 4 environments x 128 steps, "
    "minibatches of 128, 4 epochs; one core",
    algorithm="pqn",
    env_id="CartPole-v1",
    recipe="cartpole",
    hidden=(120, 84),
    batch_size=128,
    warm_up_steps=10_240,
    learning_rate=2.5e-4,
    env_count=4,
    total_steps=2_000_000,
)
SAC_100 = OffPolicySetting(
    name="sac-100",
    title="SAC on Pendulum-v1, RLtools' settings: 64-64, batch 100, an update every step; one core",
    algorithm="sac",
    env_id="Pendulum-v1",
    recipe="pendulum",
    hidden=(64, 64),
    batch_size=100,
    warm_up_steps=2_000,
    learning_starts=100,
    learning_rate=1e-3,
)
SAC_256 = OffPolicySetting(
    name="sac-256",
    title="SAC on Pendulum-v1: 64-64, batch 256, an update every step; one core",
    algorithm="sac",
    env_id="Pendulum-v1",
    recipe="pendulum",
    hidden=(64, 64),
    batch_size=256,
    warm_up_steps=1_500,
    learning_starts=100,
)
SAC_CHEETAH = OffPolicySetting(
    name="sac-halfcheetah",
    title="SAC on HalfCheetah-v5: 256-256, batch 256, an update every step; one core",
    algorithm="sac",
    env_id="HalfCheetah-v5",
    recipe="halfcheetah",
    hidden=(256, 256),
    batch_size=256,
    warm_up_steps=1_300,
)
TD3_CHEETAH = OffPolicySetting(
    name="td3-halfcheetah",
    title="TD3 on HalfCheetah-v5: 256-256, batch 256, an update every step; one core",
    algorithm="td3",
    env_id="HalfCheetah-v5",
    recipe="halfcheetah",
    hidden=(256, 256),
    batch_size=256,
    warm_up_steps=1_300,
)
OFF_POLICY_SETTINGS = {one.name: one for one in (DQN, PQN, SAC_100, SAC_256, SAC_CHEETAH, TD3_CHEETAH)}
OF_SB3 = frozenset(OFF_POLICY_SETTINGS) - {"pqn"}

OFF_POLICY_CATALOGUE = (
    Peer(
        OURS,
        "Palaestra",
        "peers.off_policy_ours",
        frozenset(OFF_POLICY_SETTINGS),
        remark="`palaestra train`, all loggers and checkpoints on, replay buffer included",
    ),
    Peer(
        "palaestra-torch",
        "Palaestra, torch engine",
        "peers.off_policy_ours",
        frozenset(OFF_POLICY_SETTINGS),
        arguments=("torch",),
        remark="all loggers and checkpoints on, replay buffer included",
    ),
    Peer("sb3", "Stable-Baselines3", "peers.off_policy_sb3", OF_SB3, remark="`learn`, no logging"),
    Peer(
        "sbx",
        "SBX",
        "peers.off_policy_sb3",
        OF_SB3 - {"sac-100"},
        arguments=("sbx",),
        requirements="sbx",
        remark="`learn`, compiled by JAX, no logging",
    ),
    Peer(
        "rltools",
        "RLtools with MKL",
        "peers.off_policy_rltools",
        frozenset({"sac-100"}),
        requirements="rltools",
        remark="its Python interface, compiled before the clock starts; no logging, no evaluation",
    ),
    Peer(
        "cleanrl",
        "CleanRL's script",
        "peers.off_policy_cleanrl",
        frozenset({"dqn", "pqn"}),
        requirements="cleanrl",
        remark="unmodified, from the checkout that was given; it writes TensorBoard files",
    ),
)

OFF_POLICY_TARGETS = (
    Target("sb3", "dqn", 15),
    Target("cleanrl", "dqn", 15),
    Target("cleanrl", "pqn", 30),
    Target("rltools", "sac-100", 1.3),
    Target("sb3", "sac-100", 12),
    Target("sbx", "sac-256", 3),
    Target("sb3", "sac-256", 8),
    Target("sbx", "sac-halfcheetah", 1.4),
    Target("sb3", "sac-halfcheetah", 2),
    Target("sbx", "td3-halfcheetah", 1.4),
    Target("sb3", "td3-halfcheetah", 2),
    *(Target("sb3", name, 1.2, side="palaestra-torch") for name in sorted(OF_SB3)),
)


def read_job() -> Job[OffPolicySetting]:
    told = json.loads(os.environ[JOB])
    setting = {**told["setting"], "hidden": tuple(told["setting"]["hidden"])}
    return Job(**{**told, "setting": OffPolicySetting(**setting)})
