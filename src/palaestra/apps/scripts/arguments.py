"""One argument of a script: its type, its default, and how a value for it is written on a command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.apps.scripts.argument_types import ArgumentType, NotFitting
from palaestra.core.worker_kind import FieldError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Argument:
    name: str
    flag: str  # as the script's own parser calls it
    type: ArgumentType
    description: str
    has_default: bool
    is_known: bool  # whether `default` is the value; else only its text is known
    default: Any
    default_text: str = ""
    is_derived: bool = False  # the script fills it in itself
    is_word: bool = False  # a truth is written as a word after the flag (argparse), not as --flag and --no-flag
    is_switch: bool = False  # the flag alone turns the default over (argparse); there is no flag to keep it

    def words(self, value: Any) -> list[str]:
        """As typed after the script's name."""
        if self.is_switch:
            return [] if value == self.default else [self.flag]
        if isinstance(value, bool) and not self.is_word:
            return [self.flag if value else f"--no-{self.flag.removeprefix('--')}"]
        if isinstance(value, list):
            return [self.flag, *map(str, value)]
        text = str(value)
        return [f"{self.flag}={text}"] if text.startswith("-") else [self.flag, text]  # a dash begins a flag


def complete(arguments: Sequence[Argument], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """Every known value, those given in the place of defaults, and everything that is wrong with those given."""
    values = {one.name: one.default for one in arguments if one.is_known and not one.is_derived}
    complaints = []
    by_name = {one.name: one for one in arguments}
    for name, value in given.items():
        argument = by_name[name]
        if argument.is_derived:
            complaints.append(FieldError(name, f"'{name}' is worked out by the script itself.", "Leave it out."))
            continue
        try:
            values[name] = argument.type.fit(value)
        except NotFitting as error:
            complaints.append(FieldError(name, f"'{name}={value}' cannot be.", str(error)))
    missing = [one.name for one in arguments if not one.has_default and not one.is_derived and one.name not in values]
    complaints += [FieldError(name, f"The script wants a value for '{name}'.", f"Add {name}=…") for name in missing]
    return values, complaints


def command_words(arguments: Sequence[Argument], values: Mapping[str, Any]) -> list[str]:
    """Only what differs from the script's own defaults, so that nothing said is exactly the bare script."""
    words: list[str] = []
    for one in arguments:
        if one.name not in values or (one.is_known and _is_same(values[one.name], one.default)):
            continue
        words += one.words(values[one.name])
    return words


def _is_same(value: Any, default: Any) -> bool:
    """1, 1.0 and True are three things to a parser."""
    return type(value) is type(default) and bool(value == default)
