"""The words of `palaestra train`: `[recipe] [run=NAME] [key=value ...]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.config.overrides import parse_overrides, split_word
from palaestra.contracts.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN_KEY = "run"


@dataclass(frozen=True)
class Words:
    recipe: str  # empty: the defaults of TrainConfig
    run: str  # as typed, never read as YAML: `run=007` is called 007
    overrides: dict[str, Any]


def read_words(words: Sequence[str]) -> Words:
    recipe, settings = split_target(words)
    names = [split_word(word)[1] for word in settings if split_word(word)[0] == RUN_KEY]
    if len(names) > 1:
        raise UsageError(f"'run' is set twice: {names[0]!r} and {names[1]!r}.", "Keep one of them.")
    if names == [""]:
        raise UsageError("'run=' has no name.", "Leave it out for a generated one.")
    rest = [word for word in settings if split_word(word)[0] != RUN_KEY]
    return Words(recipe=recipe, run=names[0] if names else "", overrides=parse_overrides(rest))


def split_target(words: Sequence[str]) -> tuple[str, list[str]]:
    """The first word without '=', and the settings; the order does not matter."""
    targets = [word for word in words if "=" not in word]
    if len(targets) > 1:
        hint = "Settings are written key=value."
        raise UsageError(f"One name is wanted, not {len(targets)}: {', '.join(targets)}.", hint)
    return (targets[0] if targets else ""), [word for word in words if "=" in word]
