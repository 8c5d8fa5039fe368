"""Generates the page's TypeScript types from the schemas of the OpenAPI document.

`python -m palaestra.web.typescript FILE` writes them; `--check` only checks whether FILE is up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.web.app import all_routes
from palaestra.web.openapi import PREFIX, build_openapi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.web.openapi import Schema

HEAD = """// Generated from the API's schema by `make api-types`; do not edit.
// Times are seconds since 1970, sizes bytes.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
"""
PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
MAPPING = "{ [key: string]: Json }"
WORD = re.compile(r"[A-Za-z_$][\w$]*")


def typescript(components: Mapping[str, Schema]) -> str:
    """Returns one exported type for each schema, sorted by name."""
    return "\n".join([HEAD, *(_declaration(name, components[name]) for name in sorted(components))])


def _declaration(name: str, schema: Schema) -> str:
    text = f"/** {' '.join(schema['description'].split())} */\n" if schema.get("description") else ""
    if "properties" not in schema:
        return f"{text}export type {name} = {_type(schema)};\n"
    return f"{text}export interface {name} {_members(schema, '  ')}\n"


def _members(schema: Schema, indent: str) -> str:
    required = set(schema.get("required", ()))
    lines = [
        f"{indent}{key if WORD.fullmatch(key) else json.dumps(key)}{'' if key in required else '?'}: "
        f"{_type(inner, indent)};{_comment(inner)}"
        for key, inner in schema["properties"].items()
    ]
    return "\n".join(["{", *lines, f"{indent[:-2]}}}"])


def _comment(schema: Schema) -> str:
    return f" // {schema['description']}" if schema.get("description") else ""


def _type(schema: Schema, indent: str = "") -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(PREFIX)
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(one) for one in schema.get("enum", [schema.get("const")]))
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " | ".join(dict.fromkeys(_type(one, indent) for one in schema[word]))
    if isinstance(schema.get("type"), list):
        return " | ".join(PRIMITIVES[one] for one in schema["type"])
    if schema.get("type") == "array":
        return _array(_type(schema.get("items", {}), indent))
    if schema.get("type") == "object":
        return _object(schema, indent)
    return PRIMITIVES[schema["type"]] if "type" in schema else "Json"


def _array(item: str) -> str:
    return f"({item})[]" if " | " in item else f"{item}[]"


def _object(schema: Schema, indent: str) -> str:
    if "properties" in schema:
        return _members(schema, f"{indent}  ")
    of = schema.get("additionalProperties", {})
    return MAPPING if not isinstance(of, dict) or not of else f"Record<string, {_type(of, indent)}>"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the API's types as TypeScript.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when the file is out of date")
    chosen: Any = parser.parse_args(argv)
    text = typescript(build_openapi(all_routes())["components"]["schemas"])
    if not chosen.check:
        chosen.file.write_text(text)
        return 0
    if chosen.file.is_file() and chosen.file.read_text() == text:
        return 0
    print(f"{chosen.file} is out of date. Run: make api-types", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
