"""Which environment, and how it is made."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from palaestra.config.base import Frozen


class EnvConfig(Frozen):
    id: str = Field("CartPole-v1", min_length=1, description="any Gymnasium id, or module:Env-v0 to import first")
    kwargs: dict[str, Any] = Field(
        default_factory=dict, description="passed to gymnasium.make as they are; names are checked by the environment"
    )
    max_episode_steps: int | None = Field(None, ge=1, description="time limit; default: the environment's own")
