"""The one base of every configuration: frozen, an unknown key is an error, and a truth is not a number."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

NUMBERS: tuple[Any, ...] = (int, float, int | None, float | None)


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    shorthand: ClassVar[str] = ""  # what a bare value for the whole section is: "number", "text"; empty: not allowed

    @classmethod
    def settle(cls, override: Any, base: dict[str, Any]) -> Any:
        """`override` in full words, given the values that stand now.

        A section overrides this to give a bare value a meaning, or to drop what a new choice makes void.
        """
        del base
        return override

    @field_validator("*", mode="before")
    @classmethod
    def _a_truth_is_not_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        # pydantic would read `total_steps=true` as 1
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in NUMBERS:
            raise ValueError("a number is wanted, not true or false")
        return value
