"""The base class of every configuration: frozen, with unknown keys refused and booleans not taken for numbers."""

from __future__ import annotations

import logging
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

RENAMED_SECTIONS: Mapping[str, str] = MappingProxyType({"sinks": "loggers"})  # old name -> name; 0.1 wrote the old ones
NUMBERS: tuple[Any, ...] = (int, float, int | None, float | None)


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    shorthand: ClassVar[str] = ""  # what a bare value for the whole section is: "number", "text"; empty: not allowed

    renamed_keys: ClassVar[Mapping[str, str]] = MappingProxyType({})  # old name -> name; the old one is still accepted

    @classmethod
    def normalize_override(cls, override: Any, base: dict[str, Any]) -> Any:
        """`override` in full words, given the values that stand now.

        A section overrides this to give a bare value a meaning, or to drop what a new choice makes void.
        """
        del base
        return override

    @model_validator(mode="before")
    @classmethod
    def _accept_old_names(cls, value: Any) -> Any:
        return rename_keys(value, cls.renamed_keys) if cls.renamed_keys and isinstance(value, dict) else value

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans_as_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        # pydantic would read `total_steps=true` as 1
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in NUMBERS:
            raise ValueError("must be a number, not true or false")
        return value


def rename_keys(data: dict[str, Any], renamed: Mapping[str, str] = RENAMED_SECTIONS) -> dict[str, Any]:
    """`data` with the current names of keys and in the same order; a key whose new name is there too stays as it is."""
    if not renamed.keys() & data.keys():
        return data
    return {renamed[key] if key in renamed and renamed[key] not in data else key: data[key] for key in data}


@cache
def note_old_name(old: str, new: str) -> None:
    """Log once per process that a key has a new name."""
    logger.warning("Config key '%s' is now '%s'. The old name still works in this version.", old, new)
