"""Every component with its settings, as the lines of docs/policies.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import PositiveInt
from pydantic_core import PydanticUndefined

from palaestra.config.keys import list_keys
from palaestra.policies.components.registry import SHIPPED

if TYPE_CHECKING:
    from palaestra.config.base import Frozen


def reference_lines() -> list[str]:
    lines: list[str] = []
    for name, component in SHIPPED.items():
        lines += [f"### {name}", "", _about(component.__doc__), ""]
        rows = _rows(component.Settings)
        if rows:
            lines += ["| setting | value | default | |", "|---|---|---|---|", *rows, ""]
    return lines


def _about(doc: str | None) -> str:
    return " ".join((doc or "").split())


def _rows(settings: type[Frozen]) -> list[str]:
    fields = settings.model_fields
    required = {name: 1 for name, field in fields.items() if field.default is PydanticUndefined}
    keys = list_keys(settings, settings(**required))
    accepted = {key.path: key.accepts.replace(str(PositiveInt), "integer >= 1") for key in keys}
    return [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{name}`", accepted[name], default, about)) + " |"
        for name, field in fields.items()
        for default, about in [("" if name in required else _shown(field.default), field.description or "")]
    ]


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:.3g}`"
    return f"`{list(value) if isinstance(value, tuple) else value}`"
