"""A number that may change over training; see algorithms/schedules.py for its value at a step."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from palaestra.config.base import Frozen


class Schedule(Frozen):
    """`ppo.learning_rate=3e-4` is constant; `ppo.learning_rate.kind=linear` goes from `start` to `end`.

    `ppo.learning_rate.end=1e-5` alone makes a constant one linear, so that no setting is taken and not used.
    """

    shorthand: ClassVar[str] = "number"

    start: float = Field(ge=0, description="value at the first step")
    end: float = Field(default=0.0, ge=0, description="value at the last step (not used when constant)")
    kind: Literal["constant", "linear", "cosine", "exponential"] = Field(
        default="constant", description="how it goes from start to end over total_steps"
    )

    @classmethod
    def normalize_override(cls, override: Any, base: dict[str, Any]) -> Any:
        if isinstance(override, dict):
            becomes_linear = "end" in override and "kind" not in override and base.get("kind") == "constant"
            return {**override, "kind": "linear"} if becomes_linear else override
        base.clear()
        return {"start": override, "kind": "constant"}

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_number(cls, value: Any) -> Any:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return {"start": value}
        return value

    @model_validator(mode="after")
    def _validate_exponential(self) -> Schedule:
        if self.kind == "exponential" and (self.start <= 0 or self.end <= 0):
            raise ValueError(f"an exponential schedule needs start and end above 0, not {self.start} and {self.end}")
        return self

    def __str__(self) -> str:
        return f"{self.start:g}" if self.kind == "constant" else f"{self.kind} {self.start:g} to {self.end:g}"


def linear(start: float, end: float = 0.0) -> Schedule:
    return Schedule(start=start, end=end, kind="linear")


def constant(value: float) -> Schedule:
    return Schedule(start=value)
