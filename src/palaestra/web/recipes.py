"""What can be asked for by name, and the form to ask with."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from palaestra.config.recipes.find import find_recipe, is_installed, recipe_names
from palaestra.contracts.run import RunRequest
from palaestra.contracts.worker_kind import RequestRefused, TellsSchema
from palaestra.runs.documents import read_request
from palaestra.web.reading import Query
from palaestra.web.route import Call, Endpoint
from palaestra.web.schema_keys import default_values, list_schema_keys

KIND_OF_RECIPES = "native"


class FormQuery(Query):
    recipe: str = Field("", max_length=200, description="defaults from this recipe")
    run: str = Field("", max_length=200, description="defaults as that run was asked for")
    script: str = Field("", max_length=4096, description="for kinds that run one: with the arguments of this script")


def list_recipes(_call: Call) -> dict[str, Any]:
    return {"recipes": [_describe(name) for name in recipe_names()]}


def show_form(call: Call) -> dict[str, Any]:
    """Defaults are complete: the form shows what would be run if nothing were touched."""
    daemon, query = call.house.daemon, call.query
    kind = daemon.kinds.get(call.path["kind"])
    asked: dict[str, Any] = {"script": query.script} if query.script else {}
    recipe: str = query.recipe
    if query.run:
        request = read_request(daemon.directory(query.run))
        asked, recipe = {**request.config, **asked}, recipe or request.recipe
    if isinstance(kind, TellsSchema):
        schema = kind.schema_of(asked)
        defaults = {**default_values(schema), **asked}  # what it is given, and not what it makes of that
    else:
        schema = kind.schema()
        defaults = _complete(call, RunRequest(kind.name, recipe, asked), schema)
    return {"schema": schema, "defaults": defaults, "keys": list_schema_keys(schema, defaults), "recipe": recipe}


def _complete(call: Call, request: RunRequest, schema: dict[str, Any]) -> dict[str, Any]:
    daemon = call.house.daemon
    try:
        kind = daemon.kinds.get(request.kind)
        return kind.prepare(request, daemon.settings.machine, daemon.root).config
    except RequestRefused:
        if request.recipe or request.config:
            raise
        return default_values(schema)  # a kind that cannot do without something, such as a target


def _describe(name: str) -> dict[str, Any]:
    recipe = find_recipe(name)
    return {
        "name": name,
        "summary": recipe.summary,
        "env": recipe.config.env.id,
        "kind": KIND_OF_RECIPES,
        "total_steps": recipe.config.total_steps,
        "missing_extra": None if is_installed(recipe.extra) else recipe.extra,
    }


RECIPE_SCHEMA = {
    "type": "object",
    "required": ["name", "summary", "env", "kind", "missing_extra"],
    "properties": {
        "name": {"type": "string"},
        "summary": {"type": "string"},
        "env": {"type": "string"},
        "kind": {"type": "string"},
        "total_steps": {"type": "integer"},
        "missing_extra": {"type": ["string", "null"]},
    },
}
RECIPES_SCHEMA = {"type": "object", "properties": {"recipes": {"type": "array", "items": RECIPE_SCHEMA}}}
FORM_SCHEMA = {
    "type": "object",
    "required": ["schema", "defaults", "keys", "recipe"],
    "properties": {
        "schema": {"type": "object"},
        "defaults": {"type": "object"},
        "keys": {"type": "array", "items": {"type": "object"}},
        "recipe": {"type": "string"},
    },
}
ROUTES = (
    Endpoint("GET", "/api/recipes", list_recipes, "what can be trained by name", answer=RECIPES_SCHEMA),
    Endpoint("GET", "/api/kinds/{kind}/form", show_form, "schema, defaults and keys", FormQuery, answer=FORM_SCHEMA),
)
