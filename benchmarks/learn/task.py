"""What a learning task is: an environment, a budget, our recipe and the peer's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FIVE, THREE, TWO = (
    (11, 12, 13, 14, 15),
    (11, 12, 13),
    (11, 12),
)  # our seeds: none that our settings were chosen on (1 to 8)


@dataclass(frozen=True)
class PeerSettings:
    env_count: int
    ppo: dict[str, Any]  # arguments of stable_baselines3.PPO; "linear" values are {"linear": start}
    policy: dict[str, Any] = field(default_factory=dict)  # policy_kwargs; activation_fn by its name in torch.nn
    normalize: bool = False  # VecNormalize over observations and rewards


@dataclass(frozen=True)
class RecurrentPeerSettings(PeerSettings):
    """For sb3-contrib's RecurrentPPO. A class of its own, so that results of the others keep their names."""

    algorithm: str = "RecurrentPPO"


@dataclass(frozen=True)
class OffPolicyPeerSettings:
    algorithm: str  # DQN, SAC or TD3
    arguments: dict[str, Any]  # of that class of stable_baselines3
    policy: dict[str, Any] = field(default_factory=dict)  # policy_kwargs
    action_noise: float | None = None  # standard deviation of NormalActionNoise
    env_count: int = 1
    normalize: bool = False


@dataclass(frozen=True)
class Task:
    env_id: str
    recipe: str  # ours
    total_steps: int
    seeds: tuple[int, ...]  # ours
    peer: PeerSettings | OffPolicyPeerSettings
    peer_seeds: tuple[int, ...]
    digits: int = 1  # of returns, behind the point
    algorithm: str = "ppo"

    def seeds_of(self, side: str) -> tuple[int, ...]:
        return self.peer_seeds if side == "sb3" else self.seeds

    @property
    def title(self) -> str:
        """In the tables of the page."""
        return self.env_id if self.algorithm == "ppo" else f"{self.env_id}, {self.algorithm.upper()}"
