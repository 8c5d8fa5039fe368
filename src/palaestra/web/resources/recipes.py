"""Recipes, forms generated from schemas, and checkouts of scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from pydantic import Field

from palaestra.config.recipes.registry import find_recipe, is_installed, recipe_names
from palaestra.core.errors import NotFound
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import Checkout, HasDynamicSchema, OffersScripts, RequestRefused
from palaestra.runs.documents import read_request
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Body, Query

KIND_OF_RECIPES = "native"
CHECKOUTS = "/api/kinds/{kind}/checkouts"
MAX_DEPTH = 16
LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


class CheckoutBody(Body):
    path: str = Field(min_length=1, max_length=4096, pattern=r"^[^\x00]+$", description="folder of a checkout")


class FormQuery(Query):
    recipe: str = Field("", max_length=200, description="defaults from this recipe")
    run: str = Field("", max_length=200, description="defaults from the request of that run")
    script: str = Field("", max_length=4096, description="for kinds that run one: with the arguments of this script")
    algorithm: str = Field("", max_length=64, description="defaults for this algorithm; empty: the usual one")


class Recipe(TypedDict):
    name: str
    summary: str
    env: str
    kind: str
    algorithms: list[str]  # that it has settings for, its own first
    total_steps: int
    missing_extra: str | None


class RecipeList(TypedDict):
    recipes: list[Recipe]


class Form(TypedDict):
    schema: dict[str, Any]  # JSON schema of the settings
    defaults: dict[str, Any]
    keys: list[SettingKey]
    recipe: str


class CheckoutList(TypedDict):
    checkouts: list[Checkout]


def list_recipes(_call: Call) -> RecipeList:
    return {"recipes": [_describe(name) for name in recipe_names()]}


def show_form(call: Call) -> Form:
    """Returns a form. Its defaults are complete: the config of an unchanged request."""
    daemon, query = call.context.daemon, call.query
    kind = daemon.kinds.get(call.path["kind"])
    named = {"script": query.script, "algorithm": query.algorithm}
    settings: dict[str, Any] = {key: value for key, value in named.items() if value}
    recipe: str = query.recipe
    if query.run:
        request = read_request(daemon.directory(query.run))
        settings, recipe = {**request.config, **settings}, recipe or request.recipe
    if isinstance(kind, HasDynamicSchema):
        schema = kind.schema_of(settings)
        defaults = {**default_values(schema), **settings}  # settings of the request, not the resolved config
    else:
        schema = kind.schema()
        defaults = _complete(call, RunRequest(kind.name, recipe, settings), schema)
    return {"schema": schema, "defaults": defaults, "keys": list_schema_keys(schema, defaults), "recipe": recipe}


def list_checkouts(call: Call) -> CheckoutList:
    """Lists the scripts of known checkouts."""
    return {"checkouts": _script_kind(call).checkouts(call.context.daemon.root)}


def add_checkout(call: Call) -> CheckoutList:
    kind = _script_kind(call)
    kind.add_checkout(Path(call.body.path).expanduser(), call.context.daemon.root)
    return list_checkouts(call)


def _script_kind(call: Call) -> OffersScripts:
    kind = call.context.daemon.kinds.get(call.path["kind"])
    if not isinstance(kind, OffersScripts):
        raise NotFound(f"Runs of kind '{kind.name}' have no scripts.")
    return kind


def _complete(call: Call, request: RunRequest, schema: dict[str, Any]) -> dict[str, Any]:
    daemon = call.context.daemon
    try:
        kind = daemon.kinds.get(request.kind)
        return kind.prepare(request, daemon.settings.machine, daemon.root).config
    except RequestRefused:
        if request.recipe or request.config:
            raise
        return default_values(schema)  # a kind with required settings, such as a target


def _describe(name: str) -> Recipe:
    recipe = find_recipe(name)
    return {
        "name": name,
        "summary": recipe.summary,
        "env": recipe.config.env.id,
        "kind": KIND_OF_RECIPES,
        "algorithms": recipe.algorithms,
        "total_steps": recipe.config.total_steps,
        "missing_extra": None if is_installed(recipe.extra) else recipe.extra,
    }


class SettingKey(TypedDict):
    key: str  # "ppo.gamma"
    help: str
    default: Any  # the value without a change
    type: str
    choices: list[Any]
    limits: str


def list_schema_keys(schema: dict[str, Any], defaults: dict[str, Any]) -> list[SettingKey]:
    """Flattens a JSON schema to a list of keys such as `ppo.gamma`, in its order."""
    return _walk(schema, schema, defaults, "", MAX_DEPTH)


def default_values(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the defaults of a schema, for a kind without complete defaults."""
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
    """Resolves a `$ref` into the schema's definitions; keys beside the reference take precedence."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/$defs/"):
        return schema
    target = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


ROUTES = (
    Endpoint("GET", "/api/recipes", list_recipes, "recipes", response=RecipeList),
    Endpoint("GET", "/api/kinds/{kind}/form", show_form, "schema, defaults and keys", FormQuery, response=Form),
    Endpoint("GET", CHECKOUTS, list_checkouts, "scripts of known checkouts", response=CheckoutList),
    Endpoint("POST", CHECKOUTS, add_checkout, "scan a checkout", body=CheckoutBody, response=CheckoutList),
)
