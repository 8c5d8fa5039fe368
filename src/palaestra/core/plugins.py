"""The doors for our own apps and for strangers' packages: entry points, loaded only when used."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from palaestra.core.errors import NotFound, UsageError, did_you_mean


@cache
def _all() -> Any:
    """Once for all kinds: every package that is installed is looked at for it."""
    return entry_points()


@cache
def _group(kind: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in _all().select(group=f"palaestra.{kind}")}


def names(kind: str) -> list[str]:
    """Names of all plugins of a kind ("recipes", "policies", "sinks", …), sorted; nothing is imported."""
    return sorted(_group(kind))


def load(kind: str, name: str) -> Any:
    """The plugin called `name`, imported now."""
    group = _group(kind)
    singular = kind.removesuffix("s") if not kind.endswith("ies") else kind.removesuffix("ies") + "y"
    if name not in group:
        hint = did_you_mean(name, group) or f"Known: {', '.join(sorted(group)) or 'none'}."
        raise NotFound(f"No {singular} is called '{name}'.", hint)
    try:
        return group[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"The {singular} '{name}' ({group[name].value}) cannot be imported: {error}.",
            "Is the package that brings it complete?",
        ) from error
