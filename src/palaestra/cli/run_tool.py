"""`palaestra run RECIPE.TOOL [...]`: a recipe followed by the name of a tool, as users of such recipes type it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from palaestra.cli.command import HELP, Command
from palaestra.config.recipes.registry import recipe_names
from palaestra.core.errors import NotFound, UsageError, did_you_mean

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.parser import Parser

TOOLS = {"train": "train", "eval": "eval", "sim": "eval", "play": "play", "replay": "replay"}  # word -> verb
OF_RUNS = ("eval", "replay")  # what they show is a run's; the recipe says in which environment


def split_tool(word: str) -> tuple[str, str]:
    """Recipe and verb of `RECIPE.TOOL`."""
    recipe, _, tool = word.rpartition(".")
    if tool not in TOOLS:
        hint = did_you_mean(tool, TOOLS) or f"For example: palaestra run {recipe_names()[0]}.train"
        raise UsageError(f"'{word}' does not end in a tool. Tools: {', '.join(TOOLS)}.", hint)
    if recipe not in recipe_names():
        hint = did_you_mean(recipe, recipe_names()) or "'palaestra recipes' lists the recipes."
        raise NotFound(f"No recipe named '{recipe}'.", hint)
    return recipe, TOOLS[tool]


def is_recipe_tool(word: str) -> bool:
    recipe, _, tool = word.rpartition(".")
    return tool in TOOLS and recipe in recipe_names()


def verb_arguments(word: str, rest: Sequence[str]) -> list[str]:
    """The same as the words of the verb: `arena.basic.train run=a` -> `train arena.basic run=a`."""
    recipe, verb = split_tool(word)
    if verb not in OF_RUNS:
        return [verb, recipe, *rest]
    if HELP & set(rest):
        return [verb, *rest]
    if not any("=" not in other and not other.startswith("-") for other in rest):
        raise UsageError(f"'{word}' needs a run.", f"For example: palaestra run {word} latest")
    return [verb, *rest, *([f"suite={recipe}"] if verb == "eval" else [])]


class RunTool(Command):
    """Everything behind RECIPE.TOOL belongs to the verb, its flags and -h included."""

    def main(self, argv: list[str]) -> int:
        if not argv or argv[0] in HELP:
            print(self.help_text())
            return 0
        verb, *rest = verb_arguments(argv[0], argv[1:])
        command: Command = import_module(f"palaestra.cli.{verb}").COMMAND
        return command.main(rest)


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("tool", metavar="RECIPE.TOOL", help=f"a recipe and one of {', '.join(TOOLS)}")
    parser.add_argument("settings", nargs="*", metavar="...", help="arguments of that verb")


def _run(arguments: Namespace) -> int:
    return COMMAND.main([arguments.tool, *arguments.settings])


def _candidates(_argv: Sequence[str]) -> list[str]:
    return [f"{recipe}.{tool}" for recipe in recipe_names() for tool in TOOLS]


COMMAND = RunTool(
    name="run",
    summary="a recipe followed by a tool: RECIPE.train, RECIPE.eval RUN, RECIPE.play, RECIPE.replay RUN",
    examples=(
        "palaestra run cartpole.train run=first total_steps=2e4 --dry-run",
        "palaestra run cartpole.eval first --episodes 2",
        "palaestra run cartpole.train -h",
    ),
    add_arguments=_add_arguments,
    run=_run,
    candidates=_candidates,
)
