"""`palaestra config keys|show|schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.cli.candidates import RUN, show
from palaestra.cli.command import Command, Group
from palaestra.cli.output import print_json, print_table, print_text
from palaestra.config.keys import config_json_schema, list_keys
from palaestra.config.recipes.registry import find_recipe, recipe_names
from palaestra.config.train import TrainConfig
from palaestra.config.yaml import dump_yaml

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser


def _keys_arguments(parser: Parser) -> None:
    parser.add_argument("filter", nargs="?", default="", help="only keys that contain this text")
    parser.add_flag("--json", action="store_true", help="print a JSON list on stdout")


def run_keys(arguments: Namespace) -> int:
    keys = [key for key in [RUN, *list_keys(TrainConfig)] if arguments.filter in key.path]
    if arguments.json:
        rows = [
            {"key": key.path, "type": key.type_text, "limits": key.limits, "choices": key.choices}
            | {"default": show(key.default), "description": key.description}
            for key in keys
        ]
        print_json(rows)
        return 0
    table = [(key.path, key.accepts, show(key.default), key.description) for key in keys]
    print_table(("key", "type", "default", "meaning"), table, empty=f"No key contains '{arguments.filter}'.")
    return 0


def _show_arguments(parser: Parser) -> None:
    parser.add_argument("recipe", help="name of the recipe")
    parser.add_flag("--json", action="store_true", help="print JSON instead of YAML")


def run_show(arguments: Namespace) -> int:
    data = find_recipe(arguments.recipe).config.model_dump(mode="json")
    if arguments.json:
        print_json(data)
    else:
        print_text(dump_yaml(data))
    return 0


def _schema_arguments(parser: Parser) -> None:
    parser.add_flag("--json", action="store_true", help="accepted for consistency: the output is always JSON")


def run_schema(_arguments: Namespace) -> int:
    print_json(config_json_schema())
    return 0


KEYS = Command(
    name="config keys",
    summary="list all keys with type, default and meaning",
    examples=("palaestra config keys", "palaestra config keys ppo", "palaestra config keys --json"),
    add_arguments=_keys_arguments,
    run=run_keys,
)
SHOW = Command(
    name="config show",
    summary="show a recipe's complete settings",
    examples=(
        "palaestra config show cartpole",
        "palaestra config show walker2d",
        "palaestra config show cartpole --json",
    ),
    add_arguments=_show_arguments,
    run=run_show,
    candidates=lambda _words: recipe_names(),
)
SCHEMA = Command(
    name="config schema",
    summary="print the JSON schema of a training configuration",
    examples=("palaestra config schema", "palaestra config schema --json", "palaestra config schema -h"),
    add_arguments=_schema_arguments,
    run=run_schema,
)
COMMAND = Group(
    name="config",
    summary="show the keys of a configuration",
    actions={"keys": KEYS, "show": SHOW, "schema": SCHEMA},
    examples=("palaestra config keys", "palaestra config show cartpole", "palaestra config schema"),
)
