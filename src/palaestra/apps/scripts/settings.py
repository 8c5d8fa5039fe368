"""What can be said about the launch of a script, beside what the script itself can be told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from palaestra.config.base import Frozen


class LaunchConfig(Frozen):
    script: str = Field(default="", description="path of the script; it is run as it is")
    python: str = Field(default="", description="path of the interpreter to run it with; empty: the one of Palaestra")
    save_seconds: float = Field(default=60.0, ge=0, description="between checkpoints; 0: only at the end")
    keep: int = Field(default=5, ge=1, description="how many checkpoints to keep")
    start_from: str = Field(
        default="", description="checkpoint of a run of the same script to begin with: RUN, RUN:best, RUN:EPOCH"
    )
    live_budget: float = Field(
        default=0.014, ge=0, le=1, description="share of the time for pictures while watched; 0: cannot be watched"
    )
    wandb_mode: Literal["", "online", "offline", "disabled"] = Field(
        default="", description="of a script that tracks with W&B; empty: as the machine has it, offline without a key"
    )


OWN_KEYS = tuple(LaunchConfig.model_fields)
