"""Configuration keys as lines of -h and as completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.cli.words import RUN_KEY
from palaestra.config.keys import KeyInfo, list_keys
from palaestra.config.train import TrainConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        lines += [f"    {key.path}={show(key.default)}", f"        {_sentence(key)}"]
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


def _sentence(key: KeyInfo) -> str:
    return f"{key.accepts}; {key.description}"
