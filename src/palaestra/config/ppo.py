"""Settings of PPO. Defaults are CleanRL's for CartPole, so that curves can be laid over each other."""

from __future__ import annotations

from pydantic import Field, model_validator

from palaestra.config.base import Frozen
from palaestra.config.optimizer import OptimizerConfig, RegularizeConfig
from palaestra.config.ppo_options import KickstartConfig, PrioritizedConfig, VtraceConfig
from palaestra.config.schedule import Schedule, constant, linear


class PpoConfig(Frozen):
    env_count: int = Field(default=4, ge=1, description="environments per process (agents, if they have several)")
    horizon: int = Field(default=128, ge=1, description="steps of each environment (or agent) per iteration")
    minibatch_size: int = Field(
        default=128, ge=1, description="samples per gradient step; must divide env_count x horizon"
    )
    segment_length: int | None = Field(
        default=None, ge=1, description="steps that memory is trained through at once; default: horizon"
    )
    update_epochs: int = Field(default=4, ge=1, description="passes over the data per iteration")
    learning_rate: Schedule = Field(default=linear(2.5e-4), description="step size of the optimiser")
    gamma: float = Field(default=0.99, ge=0, le=1, description="discount")
    gae_lambda: float = Field(default=0.95, ge=0, le=1, description="0: one-step advantages, 1: Monte Carlo")
    clip: Schedule = Field(default=constant(0.2), description="how far one update may move the policy")
    clip_value_loss: bool = Field(default=True, description="clip the value loss like the policy loss")
    entropy_coefficient: Schedule = Field(default=constant(0.01), description="weight of the entropy bonus")
    value_coefficient: float = Field(
        default=0.5,
        ge=0,
        description="weight of the value loss, half the squared error; Stable-Baselines3 has no half: its 0.5 is our 1",
    )
    max_grad_norm: float = Field(default=0.5, gt=0, description="gradients are scaled down to this norm")
    normalize_advantages: bool = Field(default=True, description="mean 0 and deviation 1 within a minibatch")
    target_kl: float | None = Field(default=None, gt=0, description="stop the epochs early beyond this divergence")
    optimizer: OptimizerConfig = Field(default=OptimizerConfig(), description="the optimiser")
    regularize: RegularizeConfig = Field(default=RegularizeConfig(), description="regularisation of the weights")
    vtrace: VtraceConfig = Field(default=VtraceConfig(), description="off-policy correction between epochs")
    prioritized: PrioritizedConfig = Field(default=PrioritizedConfig(), description="large advantages more often")
    kickstart: KickstartConfig = Field(default=KickstartConfig(), description="train on a teacher, too")
    gradient_statistics: bool = Field(default=False, description="per-layer gradient norms among the metrics")

    @property
    def batch_size(self) -> int:
        return self.env_count * self.horizon

    @property
    def steps_per_iteration(self) -> int:
        return self.batch_size

    @model_validator(mode="after")
    def _minibatches_fit(self) -> PpoConfig:
        if self.batch_size % self.minibatch_size:
            raise ValueError(
                f"minibatch_size={self.minibatch_size} does not divide env_count x horizon = "
                f"{self.env_count} x {self.horizon} = {self.batch_size}; try minibatch_size={self._near_divisor()}"
            )
        return self

    @model_validator(mode="after")
    def _segments_fit(self) -> PpoConfig:
        if self.segment_length is not None and self.horizon % self.segment_length:
            raise ValueError(f"segment_length={self.segment_length} does not divide horizon={self.horizon}")
        return self

    def _near_divisor(self) -> int:
        divisors = (size for size in range(1, self.batch_size + 1) if self.batch_size % size == 0)
        return min(divisors, key=lambda size: abs(size - self.minibatch_size))
