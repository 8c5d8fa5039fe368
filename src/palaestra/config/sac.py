"""Settings of SAC. Defaults are those of the second paper, which Stable-Baselines3 has too."""

from __future__ import annotations

from pydantic import Field

from palaestra.config.off_policy import OffPolicyConfig
from palaestra.config.schedule import Schedule  # noqa: TC001  pydantic reads it


class SacConfig(OffPolicyConfig):
    critic_learning_rate: Schedule | None = Field(
        default=None, description="step size of the critics; null: learning_rate"
    )
    tau: float = Field(default=0.005, gt=0, le=1, description="part of the way that targets go with every update")
    temperature: float | None = Field(
        default=None, gt=0, description="fixed weight of the entropy; null: learned so that the entropy is the target"
    )
    initial_temperature: float = Field(default=1.0, gt=0, description="where a learned temperature starts")
    target_entropy: float | None = Field(
        default=None,
        description="entropy that a learned temperature keeps, of actions in the environment's units; null: minus the "
        "number of action entries; for discrete actions 0.89 of the largest",
    )
    policy_interval: int = Field(
        default=1, ge=1, description="updates of the critics for each of the actor, which then makes as many"
    )
