"""`palaestra algorithms [NAME]`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from palaestra.cli.command import Command
from palaestra.cli.output import print_json, print_table
from palaestra.config.algorithms import ALGORITHMS
from palaestra.config.recipes.registry import find_recipe, recipe_names
from palaestra.core.errors import NotFound, did_you_mean

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.parser import Parser
    from palaestra.config.algorithms import AlgorithmInfo

NAMES = tuple(info.name for info in ALGORITHMS)


def add_arguments(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", default="", help="one algorithm, with papers and recipes")
    parser.add_flag("--json", action="store_true", help="print JSON on stdout")


def run(arguments: Namespace) -> int:
    if arguments.name and arguments.name not in NAMES:
        hint = did_you_mean(arguments.name, NAMES) or f"There are: {', '.join(NAMES)}."
        raise NotFound(f"No algorithm named '{arguments.name}'.", hint)
    found = [info for info in ALGORITHMS if arguments.name in ("", info.name)]
    if arguments.json:
        rows = [_as_data(info) for info in found]
        print_json(rows[0] if arguments.name else rows)
    elif arguments.name:
        _print_details(found[0])
    else:
        table = [
            (info.name, info.data, ", ".join(info.actions), ", ".join(info.engines), info.defaults) for info in found
        ]
        print_table(("algorithm", "learns from", "actions", "engines", "defaults from"), table)
    return 0


def recipes_with(algorithm: str) -> list[str]:
    """Recipes that have settings for it."""
    return [name for name in recipe_names() if algorithm in find_recipe(name).algorithms]


def _as_data(info: AlgorithmInfo) -> dict[str, Any]:
    return {**asdict(info), "page": f"docs/{info.page}", "recipes": recipes_with(info.name)}


def _print_details(info: AlgorithmInfo) -> None:
    rows = [
        ("algorithm", f"{info.name}: {info.title}"),
        ("what for", info.summary),
        ("learns from", info.data),
        ("actions", ", ".join(info.actions)),
        ("engines", ", ".join(info.engines)),
        ("defaults from", info.defaults),
        *(("paper", paper) for paper in info.papers),
        ("recipes", ", ".join(recipes_with(info.name))),
        ("settings", f"palaestra config keys {info.name}"),
        ("details", f"docs/{info.page}"),
    ]
    print_table(("", ""), rows)


def _candidates(_argv: Sequence[str]) -> list[str]:
    return list(NAMES)


COMMAND = Command(
    name="algorithms",
    summary="learning algorithms, the actions they take, their engines and recipes",
    examples=("palaestra algorithms", "palaestra algorithms sac", "palaestra algorithms --json"),
    add_arguments=add_arguments,
    run=run,
    candidates=_candidates,
)
