"""Where metrics go, besides metrics.db, which is always written."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from palaestra.config.base import Frozen


class WandbConfig(Frozen):
    enabled: bool = Field(default=False, description="send metrics to Weights & Biases, from a process of its own")
    mode: Literal["auto", "online", "offline"] = Field(default="auto", description="auto: online when a key is found")
    project: str = Field(default="palaestra", description="W&B project")
    entity: str | None = Field(default=None, description="W&B team or user")
    group: str | None = Field(default=None, description="W&B group, for seeds of one experiment")
    tags: tuple[str, ...] = Field(default=(), description="W&B tags")
    grace_seconds: float = Field(default=10.0, ge=0, description="how long to wait for W&B when the run is over")
    upload_checkpoints: bool = Field(default=False, description="also send checkpoint files, as files and as artifacts")


class LoggersConfig(Frozen):
    console: bool = Field(default=True, description="the status table, or plain lines without a terminal")
    tensorboard: bool = Field(default=True, description="event files under tensorboard/, with CleanRL's tags")
    downsample: bool = Field(
        default=True,
        description="combine iterations of long runs into intervals with mean, min and max; false: write every value",
    )
    csv: bool = Field(default=False, description="metrics.csv in the run directory")
    wandb: WandbConfig = Field(default=WandbConfig(), description="Weights & Biases")
    plugins: tuple[str, ...] = Field(default=(), description="further loggers by name, from installed packages")
