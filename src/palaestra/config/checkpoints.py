"""When checkpoints are written and which are kept."""

from __future__ import annotations

from pydantic import Field

from palaestra.config.base import Frozen


class CheckpointConfig(Frozen):
    save_interval: int | None = Field(
        default=None,
        ge=0,
        description="iterations between checkpoints; 0: only at the end; null: 50, and at most one a second",
    )
    keep: int = Field(
        default=5, ge=1, description="how many to keep; the latest, the best and those in use always stay"
    )
    keep_trainer_states: int = Field(default=2, ge=1, description="how many of them can be continued from")
