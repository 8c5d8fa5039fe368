"""`palaestra recipes [FILTER]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.cli.command import Command
from palaestra.cli.output import print_json, print_table
from palaestra.config.recipes.registry import find_recipe, is_installed, recipe_names

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "filter", nargs="?", default="", help="only recipes whose name or environment contains this text"
    )
    parser.add_flag("--json", action="store_true", help="print a JSON list on stdout")


def run(arguments: Namespace) -> int:
    wanted = arguments.filter.lower()
    rows = [row for row in map(_row, recipe_names()) if wanted in f"{row['name']} {row['env']}".lower()]
    if arguments.json:
        print_json(rows)
        return 0
    table = [
        (row["name"], row["env"], ", ".join(row["algorithms"]), row["total_steps"], _mark(row), row["summary"])
        for row in rows
    ]
    headings = ("recipe", "env", "algorithms", "steps", "needs", "what")
    print_table(headings, table, empty=f"No recipe contains '{wanted}'.")
    return 0


def _row(name: str) -> dict[str, Any]:
    recipe = find_recipe(name)
    return {
        "name": name,
        "env": recipe.config.env.id,
        "algorithms": recipe.algorithms,
        "total_steps": recipe.config.total_steps,
        "extra": recipe.extra,
        "installed": is_installed(recipe.extra),
        "summary": recipe.summary,
    }


def _mark(row: dict[str, Any]) -> str:
    return str(row["extra"]) if row["installed"] else f"{row['extra']} (missing)"


COMMAND = Command(
    name="recipes",
    summary="list the recipes",
    examples=("palaestra recipes", "palaestra recipes walker", "palaestra recipes --json"),
    add_arguments=add_arguments,
    run=run,
)
