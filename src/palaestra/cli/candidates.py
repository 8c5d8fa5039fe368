"""What the hidden `palaestra --complete WORDS...` answers: candidates for the last word, one a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.cli.arguments import RUN_KEY
from palaestra.cli.command import Command, Group
from palaestra.cli.main import ALIASES, VERBS, load_verb, plugin_verbs
from palaestra.config.keys import KeyInfo, list_keys
from palaestra.config.train import TrainConfig
from palaestra.core.errors import PalaestraError
from palaestra.runs.identity import RunNames
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from collections.abc import Sequence


def complete(argv: list[str]) -> list[str]:
    """`words` follow the command's name; the last one is being typed and may be empty. Never an error."""
    *before, current = argv or [""]
    try:
        found = _candidates(before, current)
    except PalaestraError:  # an unknown verb or recipe: there is nothing to offer, and no place to say so
        return []
    return [word for word in found if word.startswith(current)]


def _candidates(before: list[str], current: str) -> list[str]:
    if not before:
        return ["--help", "--version"] if current.startswith("-") else [*VERBS, *ALIASES, *plugin_verbs()]
    verb = load_verb(before[0])
    argv = before[1:]
    if isinstance(verb, Group):
        if not argv:
            return ["--help"] if current.startswith("-") else list(verb.actions)
        if argv[0] not in verb.actions:
            return []
        verb, argv = verb.actions[argv[0]], argv[1:]
    return _of_command(verb, argv, current)


def _of_command(command: Command, argv: list[str], current: str) -> list[str]:
    if current.startswith("-"):
        return command.parser().flags
    return command.candidates([*argv, current])


SELECTORS = ("best", "latest")


def run_names() -> list[str]:
    """From the names alone: completion must answer at once, also beside a damaged run."""
    names = RunNames(runs_root()).all()
    return [*sorted(names), "latest"] if names else []


def run_selectors() -> list[str]:
    return [*run_names(), *(f"{name}:{selector}" for name in run_names() for selector in SELECTORS)]


RUN = KeyInfo(RUN_KEY, "text", None, "the run's name; an existing one is continued; default: a generated nickname")


def key_lines(keys: Sequence[KeyInfo]) -> list[str]:
    """Grouped by section: key=default, meaning, and what is accepted."""
    lines: list[str] = []
    section = None
    for key in [RUN, *keys]:
        top = key.path.partition(".")[0] if "." in key.path or key.is_section else ""
        if top != section:
            lines += ["", f"  {top or 'general'}"]
            section = top
        lines += [f"    {key.path}={show(key.default)}", f"        {_key_sentence(key)}"]
    return lines


def complete_keys(word: str) -> list[str]:
    """`ppo.cl` to `ppo.clip=`; after the `=`, the words that are allowed."""
    keys = [RUN, *list_keys(TrainConfig)]
    path, equals, _ = word.partition("=")
    if not equals:
        return [f"{key.path}=" for key in keys]
    return [f"{path}={choice}" for key in keys if key.path == path for choice in key.choices]


def show(value: Any) -> str:
    """As it would be typed."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _key_sentence(key: KeyInfo) -> str:
    return f"{key.accepts}; {key.description}"
