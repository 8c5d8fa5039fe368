"""Options of PPO that are off by default; see palaestra.algorithms.advantages and palaestra.algorithms.ppo."""

from __future__ import annotations

from pydantic import Field

from palaestra.config.base import Frozen
from palaestra.config.schedule import Schedule, linear


class VtraceConfig(Frozen):
    enabled: bool = Field(
        default=False,
        description="before every epoch, correct advantages for how far the policy has moved since it acted",
    )
    rho_clip: float = Field(default=1.0, gt=0, description="largest weight of one step's TD error")
    c_clip: float = Field(default=1.0, gt=0, description="largest weight with which later steps reach back")


class PrioritizedConfig(Frozen):
    enabled: bool = Field(default=False, description="draw segments in proportion to |advantage|^alpha")
    alpha: float = Field(default=0.8, ge=0, le=2, description="0: all segments alike, 1: in proportion")
    beta: Schedule = Field(
        default=linear(0.4, 1.0), description="importance correction; 1: the expected gradient is the uniform one"
    )


class KickstartConfig(Frozen):
    teacher: str | None = Field(
        default=None, description="checkpoint of a teacher: RUN:best, RUN:10 or a path; null: none"
    )
    action_coefficient: Schedule = Field(
        default=linear(1.0), description="weight of the teacher's actions (cross-entropy)"
    )
    value_coefficient: Schedule = Field(default=linear(0.5), description="weight of the teacher's values")
