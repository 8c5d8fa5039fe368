"""Which environment, and how it is made. `env=NAME` is a fresh start; `env.id=NAME` keeps the other settings."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from palaestra.config.base import Frozen


class EnvConfig(Frozen):
    shorthand: ClassVar[str] = "text"

    id: str = Field(
        default="CartPole-v1", min_length=1, description="any Gymnasium id, or module:Env-v0 to import first"
    )
    kwargs: dict[str, Any] = Field(
        default_factory=dict, description="passed to gymnasium.make as they are; names are checked by the environment"
    )
    max_episode_steps: int | None = Field(default=None, ge=1, description="time limit; default: the environment's own")
    workers: int = Field(
        default=0, ge=0, le=256, description="processes (threads for MuJoCo's batch) that step beside this one"
    )
    stepping: Literal["auto", "copies", "mujoco"] = Field(
        default="auto",
        description="copy by copy, or MuJoCo's as one batch; auto: as a batch where workers are asked for and it fits",
    )
    step_timeout: float = Field(
        default=60.0,
        ge=0,
        description="seconds until a step or reset in the process that trains is given up; 0: never",
    )
    worker_timeout: float = Field(
        default=60.0, gt=0, description="seconds until a worker without a reply counts as hung"
    )

    @classmethod
    def normalize_override(cls, override: Any, base: dict[str, Any]) -> Any:
        """Another environment takes nothing over from the one before: its kwargs would not fit."""
        if isinstance(override, str):
            base.clear()
            return {"id": override}
        return override

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_id(cls, value: Any) -> Any:
        return {"id": value} if isinstance(value, str) else value

    def __str__(self) -> str:
        return self.id


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
    def _validate_rates(self) -> CurriculumConfig:
        if self.slow_rate >= self.fast_rate:
            raise ValueError(f"slow_rate={self.slow_rate:g} must be below fast_rate={self.fast_rate:g}")
        return self
