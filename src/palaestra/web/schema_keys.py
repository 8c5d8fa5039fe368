"""A JSON schema as a flat list of keys, for forms and for people: `ppo.gamma`, its type, default and meaning."""

from __future__ import annotations

from typing import Any, TypedDict

DEEPEST = 16
LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


class SettingKey(TypedDict):
    key: str  # "ppo.gamma"
    help: str
    default: Any  # what would be used
    type: str
    choices: list[Any]
    limits: str


def list_schema_keys(schema: dict[str, Any], defaults: dict[str, Any]) -> list[SettingKey]:
    """In the order of the schema: {key, help, default, type, choices, limits}; `default` is what would be used."""
    return _walk(schema, schema, defaults, "", DEEPEST)


def default_values(schema: dict[str, Any]) -> dict[str, Any]:
    """What the schema itself says, for a kind that has no complete defaults."""
    properties = schema.get("properties", {})
    return {key: _resolved(schema, inner).get("default") for key, inner in properties.items()}


def _walk(root: dict[str, Any], schema: dict[str, Any], values: Any, prefix: str, depth: int) -> list[SettingKey]:
    found: list[SettingKey] = []
    for name, raw in schema.get("properties", {}).items():
        inner, value = _resolved(root, raw), values.get(name) if isinstance(values, dict) else None
        if inner.get("properties") and depth:
            found += _walk(root, inner, value, f"{prefix}{name}.", depth - 1)
        else:
            found.append(_key(f"{prefix}{name}", inner, value))
    return found


def _key(path: str, schema: dict[str, Any], value: Any) -> SettingKey:
    return {
        "key": path,
        "help": str(schema.get("description", "")),
        "default": value,
        "type": _type_text(schema),
        "choices": _choices(schema),
        "limits": ", ".join(f"{sign} {limit}" for sign, limit in _limits(schema)),
    }


def _parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    parts = schema.get("anyOf") or schema.get("oneOf")
    return list(parts) if parts else [schema]


def _type_text(schema: dict[str, Any]) -> str:
    names = ["choice" if "enum" in part or "const" in part else str(part.get("type", "any")) for part in _parts(schema)]
    return " or ".join(dict.fromkeys(names))


def _choices(schema: dict[str, Any]) -> list[Any]:
    return [
        choice for part in _parts(schema) for choice in part.get("enum", [part["const"]] if "const" in part else [])
    ]


def _limits(schema: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(sign, part[word]) for part in _parts(schema) for word, sign in LIMITS.items() if word in part]


def _resolved(root: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """References into the schema's own definitions; what stands beside the reference goes before."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/$defs/"):
        return schema
    target = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
