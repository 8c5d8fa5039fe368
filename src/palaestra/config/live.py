"""How much a run gives to those who watch it."""

from __future__ import annotations

from pydantic import Field

from palaestra.config.base import Frozen


class LiveConfig(Frozen):
    enabled: bool = Field(default=True, description="the run can be watched; costs nothing while nobody does")
    budget: float = Field(
        default=0.015, gt=0, le=1, description="largest share of the time that goes into pictures while watched"
    )
    tiles: int = Field(default=64, ge=1, le=1024, description="how many environments can be watched, the first ones")
    largest_side: int = Field(
        default=640, ge=16, le=2048, description="pixels; larger pictures are made smaller before they leave the run"
    )
