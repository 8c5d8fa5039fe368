"""What the hidden `palaestra --complete WORDS...` answers: candidates for the last word, one a line."""

from __future__ import annotations

from palaestra.cli.command import Command, Group
from palaestra.cli.main import ALIASES, VERBS, load_verb, plugin_verbs
from palaestra.core.errors import PalaestraError


def complete(words: list[str]) -> list[str]:
    """`words` follow the command's name; the last one is being typed and may be empty. Never an error."""
    *before, current = words or [""]
    try:
        found = _candidates(before, current)
    except PalaestraError:  # an unknown verb or recipe: there is nothing to offer, and no place to say so
        return []
    return [word for word in found if word.startswith(current)]


def _candidates(before: list[str], current: str) -> list[str]:
    if not before:
        return ["--help", "--version"] if current.startswith("-") else [*VERBS, *ALIASES, *plugin_verbs()]
    verb = load_verb(before[0])
    words = before[1:]
    if isinstance(verb, Group):
        if not words:
            return ["--help"] if current.startswith("-") else list(verb.actions)
        if words[0] not in verb.actions:
            return []
        verb, words = verb.actions[words[0]], words[1:]
    return _of_command(verb, words, current)


def _of_command(command: Command, words: list[str], current: str) -> list[str]:
    if current.startswith("-"):
        return command.parser().flags
    return command.candidates([*words, current])
