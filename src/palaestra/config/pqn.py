"""Settings of PQN. Defaults are CleanRL's for CartPole, so that curves can be laid over each other."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from palaestra.config.base import Frozen
from palaestra.config.dqn import ExplorationConfig
from palaestra.config.optimizer import OptimizerConfig
from palaestra.config.schedule import Schedule, linear

# Settings of DQN that PQN cannot have.
REPLAY_KEYS = ("prioritized", "buffer_size", "learning_starts", "train_interval", "gradient_steps", "n_step")
RADAM = OptimizerConfig(kind="radam", epsilon=1e-8)


class PqnConfig(Frozen):
    env_count: int = Field(default=4, ge=1, description="environments per process (agents, if they have several)")
    horizon: int = Field(default=128, ge=1, description="steps of each environment (or agent) per iteration")
    minibatch_size: int = Field(
        default=128, ge=1, description="samples per gradient step; must divide env_count x horizon"
    )
    update_epochs: int = Field(default=4, ge=1, description="passes over the data per iteration")
    learning_rate: Schedule = Field(default=linear(2.5e-4), description="step size of the optimiser")
    gamma: float = Field(default=0.99, ge=0, le=1, description="discount")
    q_lambda: float = Field(default=0.65, ge=0, le=1, description="0: one-step targets, 1: Monte Carlo")
    exploration: ExplorationConfig = Field(default=ExplorationConfig(), description="random actions")
    max_grad_norm: float = Field(default=10.0, gt=0, description="gradients are scaled down to this norm")
    optimizer: OptimizerConfig = Field(default=RADAM, description="the optimiser")

    @property
    def steps_per_iteration(self) -> int:
        return self.env_count * self.horizon

    @model_validator(mode="before")
    @classmethod
    def _refuse_replay(cls, value: Any) -> Any:
        found = [name for name in REPLAY_KEYS if isinstance(value, dict) and name in value]
        if found:
            raise ValueError(
                f"there is no {found[0]}, because PQN learns from the newest steps and has no replay buffer; "
                f"take algorithm=dqn, whose setting is dqn.{found[0]}"
            )
        return value

    @model_validator(mode="after")
    def _minibatches_fit(self) -> PqnConfig:
        if self.steps_per_iteration % self.minibatch_size:
            raise ValueError(
                f"minibatch_size={self.minibatch_size} does not divide env_count x horizon = "
                f"{self.env_count} x {self.horizon} = {self.steps_per_iteration}"
            )
        return self
