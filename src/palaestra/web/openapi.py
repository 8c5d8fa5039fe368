"""The OpenAPI document, generated from the declared endpoints and their types."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from enum import StrEnum
from importlib.metadata import version
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from palaestra.web.endpoints import MUTATIONS, Call, Endpoint, Socket
from palaestra.web.responses import ErrorResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from palaestra.web.endpoints import Declared

PATH = "/api/openapi.json"
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
PUBLIC = {"/login", "/api/login", "/", "/favicon.svg"}
EVERYWHERE = (400, 401, 403, 404, 405, 408, 414, 421, 422)
OF_MUTATIONS = (413, 415)
MEANINGS = {
    400: "malformed",
    401: "missing or wrong token",
    403: "foreign origin",
    404: "not found",
    405: "no such method",
    408: "too slow",
    409: "not in this state",
    413: "too large",
    414: "URL too long",
    415: "wrong content type",
    416: "no such range",
    421: "foreign host",
    422: "invalid values",
    429: "too many requests",
    502: "no response from TensorBoard",
    503: "queue or viewers full",
    507: "the disk is full or read-only",
}
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


def build_openapi(declared: Sequence[Declared]) -> dict[str, Any]:
    """Builds the OpenAPI 3.1 document. It has no sockets, so only the schemas of their messages are in it."""
    schemas: dict[str, Any] = {}
    refused = schema_of(ErrorResponse, schemas)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in declared:
        if isinstance(endpoint, Endpoint) and "{name:path}" not in endpoint.path:
            operations = paths.setdefault(PARAMETER.sub(r"{\1}", endpoint.path), {})
            operations[endpoint.method.lower()] = _operation(endpoint, schemas)
        elif isinstance(endpoint, Socket):
            for message in endpoint.messages:
                schema_of(message, schemas)
            for model in endpoint.receives:
                _model_schema(model, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Palaestra", "version": version("palaestra")},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {str(status): _refusal(status, refused) for status in MEANINGS},
        },
    }


def openapi_route(declared: Sequence[Declared]) -> Endpoint:
    document: dict[str, Any] = {}

    def show(_call: Call) -> dict[str, Any]:
        if not document:
            document.update(build_openapi([*declared, endpoint]))
        return document

    endpoint = Endpoint("GET", PATH, show, "this document", response=dict[str, Any])
    return endpoint


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    name_parts = re.findall(r"\w+", endpoint.path.replace("{", " by ").replace("}", ""))
    statuses = {*EVERYWHERE, *endpoint.errors, *(OF_MUTATIONS if endpoint.method in MUTATIONS else ())}
    response: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.status not in {204, 303}:
        schema = {} if endpoint.response is None else schema_of(endpoint.response, schemas)
        response["content"] = {endpoint.media: {"schema": schema} if schema else {}}
        response["content"] |= {media: {} for media in endpoint.other_media}
    operation: dict[str, Any] = {
        "operationId": "_".join([endpoint.method.lower(), *name_parts]),
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint, schemas)],
        "responses": {
            str(endpoint.status): response,
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)},
        },
    }
    if endpoint.path in PUBLIC:
        operation["security"] = []
    if endpoint.method in MUTATIONS and (endpoint.body is not None or endpoint.is_stream):
        operation["requestBody"] = _request_body(endpoint, schemas)
    return operation


def _request_body(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    if endpoint.body is None:
        return {"content": {kind: {} for kind in endpoint.takes}, "required": True}
    content = {endpoint.takes[0]: {"schema": _model_schema(endpoint.body, schemas)}}
    return {"content": content, "required": not endpoint.is_body_optional}


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in PARAMETER.findall(endpoint.path)
    ]


def _query_parameters(endpoint: Endpoint, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    whole = _adopt(endpoint.query.model_json_schema(ref_template="#/components/schemas/{model}"), schemas)
    required = set(whole.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        | ({"description": schema["description"]} if "description" in schema else {})
        for name, schema in whole.get("properties", {}).items()
    ]


def _model_schema(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    schemas[model.__name__] = _adopt(model.model_json_schema(ref_template="#/components/schemas/{model}"), schemas)
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _adopt(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Moves the definitions of a schema to the document."""
    schemas.update(schema.get("$defs", {}))
    return {key: value for key, value in schema.items() if key != "$defs"}


def _refusal(status: int, schema: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"description": MEANINGS[status], "content": content}


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
