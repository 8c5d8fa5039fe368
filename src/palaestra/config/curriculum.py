"""Several tasks in one training: variations of one environment, drawn anew for every episode."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from palaestra.config.base import Frozen

NAME = re.compile(r"[A-Za-z0-9_.+-]{1,40}")


class TaskConfig(Frozen):
    weight: float = Field(default=1.0, gt=0, description="how often it is drawn, beside the other weights")
    kwargs: dict[str, Any] = Field(
        default_factory=dict, description="laid over env.kwargs, or handed to reset(options=…)"
    )


class CurriculumConfig(Frozen):
    tasks: dict[str, TaskConfig] = Field(
        default_factory=dict, description="name: {weight, kwargs} of each; empty: no curriculum"
    )
    kind: Literal["weighted", "learning_progress"] = Field(
        default="weighted", description="draw by weight, or by weight x how much a task's return moves"
    )
    given_by: Literal["kwargs", "options"] = Field(
        default="kwargs", description="an environment per task, or one that reads reset(options={'task': name})"
    )
    fast_rate: float = Field(default=0.1, gt=0, le=1, description="share of one episode in the fast mean of returns")
    slow_rate: float = Field(default=0.01, gt=0, le=1, description="share of one episode in the slow mean of returns")
    floor: float = Field(
        default=0.2, ge=0, le=1, description="share of episodes drawn by weight alone, whatever the progress"
    )

    @field_validator("tasks")
    @classmethod
    def _names_fit_into_metrics(cls, tasks: dict[str, TaskConfig]) -> dict[str, TaskConfig]:
        for name in tasks:
            if not NAME.fullmatch(name):
                raise ValueError(f"'{name}' is no name of a task; use up to 40 letters, digits and _ . + -")
        return tasks

    @model_validator(mode="after")
    def _slow_is_slower(self) -> CurriculumConfig:
        if self.slow_rate >= self.fast_rate:
            raise ValueError(f"slow_rate={self.slow_rate:g} must be below fast_rate={self.fast_rate:g}")
        return self
