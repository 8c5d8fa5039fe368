"""The form of a script: our own settings, then its arguments, as JSON schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.apps.scripts.settings import LaunchConfig
from palaestra.config.keys import config_json_schema

if TYPE_CHECKING:
    from palaestra.apps.scripts.script import Script


def own_schema() -> dict[str, Any]:
    """As long as no script is named; its arguments are not known then, so others are not refused."""
    return {**config_json_schema(LaunchConfig), "required": ["script"], "additionalProperties": True}


def script_schema(script: Script) -> dict[str, Any]:
    own = own_schema()
    properties = dict(own["properties"])
    for argument in script.asked:
        entry: dict[str, Any] = {**argument.type.schema(), "description": argument.description}
        if argument.is_known:
            entry["default"] = argument.default
        elif argument.default_text:
            entry["description"] = f"{argument.description} (default: {argument.default_text})".strip()
        properties[argument.name] = entry
    missing = [one.name for one in script.asked if not one.has_default]
    return {**own, "properties": properties, "required": ["script", *missing], "additionalProperties": not script.style}
