from __future__ import annotations

import re
import typing
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from starlette.responses import Response

from palaestra.web.app import all_routes
from palaestra.web.endpoints import Endpoint
from palaestra.web.openapi import build_openapi, schema_of


def references(data):
    if isinstance(data, dict):
        yield from ([data["$ref"]] if isinstance(data.get("$ref"), str) else [])
        for value in data.values():
            yield from references(value)
    elif isinstance(data, list):
        for value in data:
            yield from references(value)


def test_every_declared_endpoint_is_in_the_document(client):
    document = client.get("/api/openapi.json").json()
    reports = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    declared = {
        (one.method, re.sub(r":\w+\}", "}", one.path))
        for one in all_routes()
        if isinstance(one, Endpoint) and "{name:path}" not in one.path
    }
    assert reports == declared | {("GET", "/api/openapi.json")}


def test_the_api_documentation_lists_every_path():
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    reports = set(re.findall(r"`([A-Z]+ /[^`?]*)`", page))
    paths = build_openapi([*all_routes()])["paths"]
    declared = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert reports - {"GET /api/openapi.json"} == declared


def test_every_reference_is_defined():
    document = build_openapi(all_routes())
    for reference in set(references(document)):
        found = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert isinstance(found, dict)


def test_operation_ids_are_unique():
    document = build_openapi(all_routes())
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))


def test_path_parameters_are_declared_and_bodies_have_schemas():
    document = build_openapi(all_routes())
    show = document["paths"]["/api/runs/{id}"]["get"]
    assert [parameter["name"] for parameter in show["parameters"]] == ["id"]
    submit = document["paths"]["/api/runs"]["post"]
    assert submit["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/RunBody"}
    assert {"201", "401", "413", "415", "422", "507"} <= set(submit["responses"])
    assert "config" in document["components"]["schemas"]["RunBody"]["properties"]


def test_a_handler_returns_the_type_that_its_endpoint_declares():
    endpoints = [one for one in all_routes() if isinstance(one, Endpoint)]
    declared = [one for one in endpoints if one.response is not None]
    assert len(declared) > 25
    for endpoint in declared:
        returned = typing.get_type_hints(endpoint.handler)["return"]
        kinds = typing.get_args(returned) if isinstance(returned, UnionType) else (returned,)
        assert [kind for kind in kinds if kind is not Response] == [endpoint.response], endpoint.path
    silent = [one.path for one in endpoints if one.response is None and one.status == 200 and "json" in one.media]
    assert silent == []


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
