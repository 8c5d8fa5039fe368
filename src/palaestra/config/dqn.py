"""Settings of DQN. Defaults are CleanRL's for CartPole, so that curves can be laid over each other."""

from __future__ import annotations

from pydantic import Field

from palaestra.config.base import Frozen
from palaestra.config.off_policy import OffPolicyConfig
from palaestra.config.schedule import Schedule, constant


class ExplorationConfig(Frozen):
    """Epsilon, the share of random actions, falls linearly from `start` to `end` and stays there."""

    start: float = Field(default=1.0, ge=0, le=1, description="share of random actions at the first step")
    end: float = Field(default=0.05, ge=0, le=1, description="share of random actions in the end")
    fraction: float = Field(default=0.5, gt=0, le=1, description="part of total_steps after which the end is reached")


class PrioritizedReplayConfig(Frozen):
    enabled: bool = Field(default=False, description="draw transitions with large TD errors more often")
    alpha: float = Field(default=0.6, ge=0, le=1, description="0: uniform; 1: in proportion to the TD error")
    beta: float = Field(
        default=0.4, ge=0, le=1, description="correction of the bias at the start; rises linearly to 1 in the end"
    )
    epsilon: float = Field(default=1e-6, gt=0, description="added to TD errors, so that every transition can be drawn")


class DqnConfig(OffPolicyConfig):
    buffer_size: int = Field(default=10_000, ge=1, description="transitions that each process keeps for learning")
    learning_starts: int = Field(default=10_000, ge=0, description="environment steps before the first update")
    train_interval: int = Field(
        default=10, ge=1, description="environment steps (over all environments and processes) between updates"
    )
    batch_size: int = Field(default=128, ge=1, description="transitions of each process per update")
    learning_rate: Schedule = Field(default=constant(2.5e-4), description="step size of the optimiser")
    target_interval: int = Field(
        default=500, ge=1, description="environment steps (over all environments and processes) between target updates"
    )
    tau: float = Field(
        default=1.0, gt=0, le=1, description="part of the way that a target update goes; 1: the target is a copy"
    )
    exploration: ExplorationConfig = Field(default=ExplorationConfig(), description="random actions")
    double: bool = Field(default=False, description="choose the next action with the network, value it with the target")
    dueling: bool = Field(default=False, description="the network adds a state's value and actions' advantages")
    loss: str = Field(default="mse", pattern="^(mse|huber)$", description="mse as in CleanRL, or huber as in the paper")
    max_grad_norm: float | None = Field(
        default=None, gt=0, description="gradients are scaled down to this norm; null: left as they are, as in CleanRL"
    )
    prioritized: PrioritizedReplayConfig = Field(
        default=PrioritizedReplayConfig(), description="prioritised experience replay"
    )
