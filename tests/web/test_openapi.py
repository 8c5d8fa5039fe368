import re
import typing
from pathlib import Path
from types import UnionType

from starlette.responses import Response

from palaestra.web.openapi import build_openapi
from palaestra.web.resources import all_routes
from palaestra.web.route import Endpoint


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
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    declared = {
        (one.method, re.sub(r":\w+\}", "}", one.path))
        for one in all_routes()
        if isinstance(one, Endpoint) and "{name:path}" not in one.path
    }
    assert told == declared | {("GET", "/api/openapi.json")}


def test_the_page_on_the_api_tells_of_every_path():
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    told = set(re.findall(r"`([A-Z]+ /[^`?]*)`", page))
    paths = build_openapi([*all_routes()])["paths"]
    declared = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert told - {"GET /api/openapi.json"} == declared


def test_every_reference_leads_somewhere():
    document = build_openapi(all_routes())
    for reference in set(references(document)):
        found = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert isinstance(found, dict)


def test_operations_have_names_of_their_own():
    document = build_openapi(all_routes())
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))


def test_holes_of_paths_are_parameters_and_bodies_have_schemas():
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
