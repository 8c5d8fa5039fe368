"""How weights are moved along the gradient, and what holds them back."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from palaestra.config.base import Frozen


class OptimizerConfig(Frozen):
    """`ppo.optimizer=muon` is short for `ppo.optimizer.kind=muon`; its other settings stay."""

    shorthand: ClassVar[str] = "text"

    kind: Literal["adam", "radam", "muon"] = Field(
        default="adam",
        description="radam: rectified Adam; muon: orthogonal steps for hidden matrices, Adam for everything else",
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="Adam: memory of the gradient")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="Adam: memory of the squared gradient")
    epsilon: float = Field(default=1e-5, gt=0, description="Adam: added to the root of the squared gradient")
    weight_decay: float = Field(
        default=0.0, ge=0, description="share of a weight taken away per step, times the learning rate; all kinds"
    )
    momentum: float = Field(default=0.95, ge=0, lt=1, description="Muon: memory of the gradient")

    @classmethod
    def normalize_override(cls, override: Any, base: dict[str, Any]) -> Any:
        del base
        return {"kind": override} if isinstance(override, str) else override

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    def __str__(self) -> str:
        return self.kind


class RegularizeConfig(Frozen):
    """What the update does to every weight of every kind of policy. All off by default."""

    clip_range: float | None = Field(
        default=None, gt=0, description="after each step every weight lies within ± this; null: anywhere"
    )
    l2: float = Field(default=0.0, ge=0, description="adds l2 / 2 x |weights|^2 to the loss")
    l2_init: float = Field(
        default=0.0, ge=0, description="adds l2_init / 2 x |weights - initial weights|^2 to the loss"
    )
