from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, NotRequired, TypedDict

import pytest

from palaestra.web.schemas import schema_of


class Colour(StrEnum):
    RED = "red"


class Part(TypedDict):
    """A part of something."""

    name: str
    size: NotRequired[int]


class Whole(Part):
    parts: list[Part]
    colour: Colour
    mood: Literal["good", "bad"]
    figures: dict[str, float | None]
    anything: Any
    ready: bool


def test_a_typed_dict_is_a_component_with_all_its_keys_and_those_of_its_base():
    components = {}
    assert schema_of(Whole, components) == {"$ref": "#/components/schemas/Whole"}
    assert components["Whole"]["required"] == ["name", "parts", "colour", "mood", "figures", "anything", "ready"]
    assert components["Whole"]["properties"] == {
        "name": {"type": "string"},
        "size": {"type": "integer"},
        "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}},
        "colour": {"$ref": "#/components/schemas/Colour"},
        "mood": {"enum": ["good", "bad"]},
        "figures": {"type": "object", "additionalProperties": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
        "anything": {},
        "ready": {"type": "boolean"},
    }
    assert components["Part"]["description"] == "A part of something."
    assert components["Colour"] == {"type": "string", "enum": ["red"]}
    assert "additionalProperties" not in components["Whole"]


def test_two_different_types_of_one_name_are_refused():
    components = {}
    schema_of(Part, components)
    schema_of(Part, components)
    components["Part"] = {"type": "object", "properties": {"name": {"type": "integer"}}, "required": ["name"]}
    with pytest.raises(TypeError, match="two types of the API are named Part"):
        schema_of(Part, components)


def test_a_type_without_a_schema_is_refused():
    with pytest.raises(TypeError, match="no JSON schema"):
        schema_of(set, {})
