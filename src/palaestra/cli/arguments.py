"""The words of `palaestra train`: `[recipe] [run=NAME] [executor=ray] [nproc=N] [key=value ...]`."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.cli.parser import positive
from palaestra.config.overrides import parse_overrides, split_setting
from palaestra.config.recipes.registry import recipe_names
from palaestra.core import plugins
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN_KEY = "run"
EXECUTOR_KEY = "executor"
NPROC_KEY = "nproc"
OWN_KEYS = (RUN_KEY, EXECUTOR_KEY, NPROC_KEY)  # of the command, not of the configuration


@dataclass(frozen=True)
class TrainArguments:
    recipe: str  # empty: the defaults of TrainConfig
    run: str  # as typed, never read as YAML: `run=007` is called 007
    overrides: dict[str, Any]
    executor: str = ""  # empty: not said
    nproc: int | None = None


def parse_train_arguments(argv: Sequence[str]) -> TrainArguments:
    recipe, settings = split_target(argv)
    own = _own_settings(settings)
    rest = [word for word in settings if split_setting(word)[0] not in OWN_KEYS]
    return TrainArguments(
        recipe=recipe,
        run=own.get(RUN_KEY, ""),
        overrides=parse_overrides(rest),
        executor=own.get(EXECUTOR_KEY, ""),
        nproc=_read_count(own[NPROC_KEY]) if NPROC_KEY in own else None,
    )


def _own_settings(settings: Sequence[str]) -> dict[str, str]:
    """Each at most once, none of them empty."""
    found: dict[str, str] = {}
    for key, value in map(split_setting, settings):
        if key not in OWN_KEYS:
            continue
        if key in found:
            raise UsageError(f"'{key}' is set twice: {found[key]!r} and {value!r}.", "Keep one of them.")
        if not value:
            what, instead = ("name", "a generated one") if key == RUN_KEY else ("value", "the usual")
            raise UsageError(f"'{key}=' has no {what}.", f"Leave it out for {instead}.")
        found[key] = value
    return found


def _read_count(text: str) -> int:
    try:
        return positive(text)
    except ArgumentTypeError as error:
        raise UsageError(f"nproc: {error}.", "It is the number of processes that train together.") from None


def split_target(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The first word without '=', and the settings; the order does not matter."""
    targets = [word for word in argv if "=" not in word]
    if len(targets) > 1:
        hint = "Settings are written key=value."
        raise UsageError(f"Expected one name, got {len(targets)}: {', '.join(targets)}.", hint)
    return (targets[0] if targets else ""), [word for word in argv if "=" in word]


KINDS_GROUP = "workers"
OURS = {"native", "evaluate"}  # they have commands of their own


def is_other_kind(word: str) -> bool:
    """A recipe of the same name goes before."""
    return word in plugins.names(KINDS_GROUP) and word not in OURS and word not in recipe_names()
