"""A verb as a value: what it is called, what it takes, what it does, three examples that work."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from palaestra.cli.output import note, print_json, print_table, stdout_only_for_json
from palaestra.cli.parser import Parser
from palaestra.core import plugins
from palaestra.core.app import CommandPlugin, CommandResult
from palaestra.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence


HELP = {"-h", "--help"}


def _nothing(_argv: Sequence[str]) -> list[str]:
    return []


@dataclass(frozen=True)
class Command:
    name: str  # "train", "runs show"
    summary: str
    examples: tuple[str, ...]
    add_arguments: Callable[[Parser], None]
    run: Callable[[Namespace], int]
    details: Callable[[Sequence[str]], list[str]] = _nothing  # further lines of -h, given the words before it
    candidates: Callable[[Sequence[str]], list[str]] = _nothing  # for completion, given the words before the cursor

    def parser(self) -> Parser:
        parser = Parser(self.name, self.summary)
        self.add_arguments(parser)
        return parser

    def main(self, argv: list[str]) -> int:
        if HELP & set(argv):
            print(self.help_text([word for word in argv if word not in HELP]))
            return 0
        arguments = self.parser().parse(argv)
        with stdout_only_for_json() if getattr(arguments, "json", False) else nullcontext():
            return self.run(arguments)

    def help_text(self, argv: Sequence[str] = ()) -> str:
        lines = [self.parser().format_help().rstrip(), *self.details(argv), "", "examples:"]
        return "\n".join([*lines, *(f"  {example}" for example in self.examples)])


@dataclass(frozen=True)
class Group:
    """Verbs of a verb: `palaestra runs show`."""

    name: str
    summary: str
    actions: dict[str, Command]
    default: str = ""  # the action when none is named
    examples: tuple[str, ...] = field(default=())

    def main(self, argv: list[str]) -> int:
        if argv and argv[0] in self.actions:
            return self.actions[argv[0]].main(argv[1:])
        if argv and argv[0] in HELP:
            print(self.help_text())
            return 0
        if self.default and (not argv or argv[0].startswith("-")):
            return self.actions[self.default].main(argv)
        return self._refuse(argv)

    def help_text(self) -> str:
        width = max(len(action) for action in self.actions)
        mark = {self.default: " (default)"} if self.default else {}
        actions = [f"  {name:<{width}}  {action.summary}{mark.get(name, '')}" for name, action in self.actions.items()]
        head = [f"usage: palaestra {self.name} ACTION [...]", "", f"{self.summary[:1].upper()}{self.summary[1:]}.", ""]
        tail = ["", f"'palaestra {self.name} ACTION -h' shows the help of an action.", "", "examples:"]
        return "\n".join([*head, "actions:", *actions, *tail, *(f"  {example}" for example in self.examples)])

    def _refuse(self, argv: list[str]) -> int:
        known = ", ".join(self.actions)
        if not argv:
            raise UsageError(f"'palaestra {self.name}' needs an action.", f"One of: {known}.")
        hint = did_you_mean(argv[0], self.actions) or f"Known: {known}."
        raise UsageError(f"'palaestra {self.name}' has no action '{argv[0]}'.", hint)


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
        parser.add_flag("--json", action="store_true", help="print one JSON object on stdout")

    def run(arguments: Namespace) -> int:
        return print_result(_work_of(plugin.work)(arguments), as_json=arguments.json)

    return Command(name, plugin.summary, plugin.examples, add_arguments, run)


def print_result(result: CommandResult, *, as_json: bool) -> int:
    if as_json:
        print_json(result.data)
        return result.exit_code
    if result.columns:
        print_table(result.columns, result.rows)
    for line in result.notes:
        note(line)
    return result.exit_code


def _work_of(reference: str) -> Callable[[Namespace], CommandResult]:
    module, _, function = reference.partition(":")
    work: Callable[[Namespace], CommandResult] = getattr(import_module(module), function)
    return work
