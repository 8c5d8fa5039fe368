"""What the algorithms that learn from a replay buffer have in common: DQN, SAC and TD3."""

from __future__ import annotations

from pydantic import Field, model_validator

from palaestra.config.base import Frozen
from palaestra.config.optimizer import OptimizerConfig
from palaestra.config.schedule import Schedule, constant

ADAM = OptimizerConfig(epsilon=1e-8)  # as torch and Stable-Baselines3 have it


class OffPolicyConfig(Frozen):
    env_count: int = Field(default=1, ge=1, description="environments per process (agents, if they have several)")
    steps_per_iteration: int = Field(
        default=1000,
        ge=1,
        description="environment steps of each process between two reports; must be a multiple of env_count",
    )
    buffer_size: int = Field(default=1_000_000, ge=1, description="transitions that each process keeps for learning")
    learning_starts: int = Field(
        default=1_000, ge=0, description="environment steps with random actions before the first update"
    )
    train_interval: int = Field(
        default=1, ge=1, description="environment steps (over all environments and processes) between updates"
    )
    gradient_steps: int = Field(default=1, ge=1, description="updates each time they are due")
    batch_size: int = Field(default=256, ge=1, description="transitions of each process per update")
    learning_rate: Schedule = Field(default=constant(3e-4), description="step size of the optimiser")
    gamma: float = Field(default=0.99, ge=0, le=1, description="discount")
    n_step: int = Field(default=1, ge=1, description="rewards that are summed before the value of what follows")
    optimizer: OptimizerConfig = Field(default=ADAM, description="the optimiser")

    @model_validator(mode="after")
    def _iterations_are_whole_steps(self) -> OffPolicyConfig:
        if self.steps_per_iteration % self.env_count:
            nearest = max(1, round(self.steps_per_iteration / self.env_count)) * self.env_count
            raise ValueError(
                f"steps_per_iteration={self.steps_per_iteration} is not a multiple of env_count={self.env_count}; "
                f"try steps_per_iteration={nearest}"
            )
        return self

    @model_validator(mode="after")
    def _buffer_holds_a_batch(self) -> OffPolicyConfig:
        if self.buffer_size < self.batch_size:
            raise ValueError(
                f"buffer_size={self.buffer_size} is less than one batch_size={self.batch_size}; "
                f"try buffer_size={self.batch_size} or more"
            )
        longest = self.buffer_size // self.env_count - 1
        if self.n_step > longest:
            raise ValueError(
                f"n_step={self.n_step} is above the {max(longest, 0)} steps that buffer_size={self.buffer_size} holds "
                f"of each of {self.env_count} environments; "
                f"try buffer_size={self.env_count * (self.n_step + 1)}, or a smaller n_step"
            )
        return self
