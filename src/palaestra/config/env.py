"""Which environment, and how it is made. `env=NAME` is a fresh start; `env.id=NAME` keeps the other settings."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

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
    worker_timeout: float = Field(default=60.0, gt=0, description="seconds until a worker that is silent is given up")

    @classmethod
    def settle(cls, override: Any, base: dict[str, Any]) -> Any:
        """Another environment takes nothing over from the one before: its kwargs would not fit."""
        if isinstance(override, str):
            base.clear()
            return {"id": override}
        return override

    @model_validator(mode="before")
    @classmethod
    def _a_bare_name_is_an_id(cls, value: Any) -> Any:
        return {"id": value} if isinstance(value, str) else value

    def __str__(self) -> str:
        return self.id
