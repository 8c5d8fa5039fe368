"""Pieces of the JSON schemas with which resources declare their answers."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
TRUTH: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
MAPPING: Schema = {"type": "object"}


def fields(**properties: Schema) -> Schema:
    """An object that has all of these, and perhaps more later."""
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def rows(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def listed_files(name: str) -> Schema:
    return fields(**{name: rows(fields(name=TEXT, bytes=WHOLE, created_at=NUMBER))})
