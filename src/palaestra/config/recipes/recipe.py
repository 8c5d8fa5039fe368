"""A recipe: a named, typed, ready-to-run configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.config.train import TrainConfig


@dataclass(frozen=True)
class Recipe:
    summary: str  # one line for `palaestra recipes`
    config: TrainConfig
    extra: str = ""  # the extra it needs, e.g. "mujoco"
