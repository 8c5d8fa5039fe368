"""JSON schemas of the types in which resources declare their responses: TypedDicts, dataclasses and their fields."""

from __future__ import annotations

from dataclasses import is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

Schema = dict[str, Any]

PREFIX = "#/components/schemas/"
PRIMITIVES: dict[Any, Schema] = {
    Any: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}


def schema_of(kind: Any, components: dict[str, Schema]) -> Schema:
    """Returns the schema of a type. Every TypedDict and dataclass becomes a component with the name of its class."""
    if kind in PRIMITIVES:
        return PRIMITIVES[kind]
    if is_typeddict(kind) or is_dataclass(kind):
        return _component(kind, components)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in {Union, UnionType}:
        return {"anyOf": [schema_of(one, components) for one in arguments]}
    if origin in {list, tuple}:  # only tuple[T, ...]
        return {"type": "array", "items": schema_of(arguments[0], components)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], components)}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        components.setdefault(kind.__name__, {"type": "string", "enum": [str(one) for one in kind]})
        return {"$ref": f"{PREFIX}{kind.__name__}"}
    raise TypeError(f"{kind!r} has no JSON schema here; use a TypedDict, dataclass, list, dict, Literal or StrEnum")


def _component(kind: Any, components: dict[str, Schema]) -> Schema:
    """An object with all of these keys; a later version may add more."""
    name, reference = kind.__name__, {"$ref": f"{PREFIX}{kind.__name__}"}
    properties: dict[str, Schema] = {}
    schema: Schema = {"type": "object", "properties": properties, "required": []}
    if kind.__doc__ and not kind.__doc__.startswith("dict("):
        schema["description"] = kind.__doc__
    before = components.get(name)
    components[name] = schema
    for key, hint in get_type_hints(kind, include_extras=True).items():
        is_optional = get_origin(hint) is NotRequired
        properties[key] = schema_of(get_args(hint)[0] if is_optional else hint, components)
        schema["required"] += [] if is_optional else [key]
    if before is not None and before != schema:
        raise TypeError(f"two types of the API are named {name}")
    return reference
