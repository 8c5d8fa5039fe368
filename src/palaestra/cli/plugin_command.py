"""Verbs that plugins bring, as verbs of ours."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import note, print_json, print_table
from palaestra.core import plugins
from palaestra.core.app import CommandPlugin, CommandResult
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from palaestra.cli.parser import Parser

GROUP = "commands"


def load_command(name: str) -> Command:
    plugin = plugins.load(GROUP, name)
    if not isinstance(plugin, CommandPlugin):
        raise UsageError(
            f"The command '{name}' is a {type(plugin).__name__}, not a CommandPlugin.",
            "See palaestra.core.app.",
        )
    return as_command(name, plugin)


def as_command(name: str, plugin: CommandPlugin) -> Command:
    def add_arguments(parser: Parser) -> None:
        plugin.add_arguments(parser)
        parser.add_flag("--json", action="store_true", help="one JSON object on stdout, nothing else there")

    def run(arguments: Namespace) -> int:
        return tell(_work_of(plugin.work)(arguments), as_json=arguments.json)

    return Command(name, plugin.summary, plugin.examples, add_arguments, run)


def tell(answer: CommandResult, *, as_json: bool) -> int:
    if as_json:
        print_json(answer.data)
        return answer.exit_code
    if answer.columns:
        print_table(answer.columns, answer.rows)
    for line in answer.notes:
        note(line)
    return answer.exit_code


def _work_of(place: str) -> Callable[[Namespace], CommandResult]:
    module, _, function = place.partition(":")
    work: Callable[[Namespace], CommandResult] = getattr(import_module(module), function)
    return work
