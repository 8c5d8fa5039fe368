"""Finds plugins, our own and those of other packages: entry points and the parts of apps, imported when used.

A kind is a group of entry points without the prefix `palaestra.` ("recipes", "envs", "policies", "components",
"loggers", "executors", "workers", "apps") or a field of `App` ("commands", "games", "suites", …). docs/plugins.md
has an example of every group.
"""

from __future__ import annotations

import logging
from dataclasses import fields
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from palaestra.core.app import App, resolve_reference
from palaestra.core.errors import NotFound, PalaestraError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPS = ("recipes", "envs", "policies", "components", "loggers", "executors", "workers", "apps")
APP_PARTS = tuple(part.name for part in fields(App))
# Groups of version 0.1 that are still read: new kind -> old group.
OLD_GROUPS = {
    "loggers": "sinks",
    "external_policies": "guests",
    "script_families": "families",
    **{part: part for part in APP_PARTS if part not in {"external_policies", "script_families"}},
}

logger = logging.getLogger(__name__)


def names(kind: str) -> list[str]:
    """The sorted names of all plugins of a kind. Imports the light modules of apps, and no plugin."""
    return sorted(_references(kind))


def load(kind: str, name: str) -> Any:
    """Imports and returns the plugin `name`; raises `NotFound` or `UsageError`."""
    found = _references(kind)
    what = _singular(kind)
    if name not in found:
        hint = did_you_mean(name, found) or f"Known: {', '.join(sorted(found)) or 'none'}."
        raise NotFound(f"No {what} named '{name}'.", " ".join([hint, *_broken_apps(kind)]))
    return load_reference(found[name], f"The {what} '{name}'")


def refresh() -> None:
    """Searches the installed packages again, after one was installed while the process runs."""
    for cached in (_all, _group, _old_group, _apps):
        cached.cache_clear()


def references(kind: str) -> dict[str, str]:
    """Name -> "package.module:object" of the plugins of a kind, for a program that loads them itself."""
    found = _references(kind).items()
    return {name: one.value if isinstance(one, EntryPoint) else one for name, one in found}


def load_reference(reference: Any, subject: str) -> Any:
    """The object of an entry point or a reference; `subject` names it at the beginning of an error."""
    try:
        return reference.load() if isinstance(reference, EntryPoint) else resolve_reference(reference)
    except (ImportError, AttributeError) as error:
        value = reference.value if isinstance(reference, EntryPoint) else reference
        raise UsageError(
            f"{subject} ({value}) cannot be imported: {error}.", "Is the package that provides it complete?"
        ) from error


def _references(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {**_old_group(kind), **_group(kind)}
    if kind in APP_PARTS:
        for app in _apps().values():
            if isinstance(app, App):
                found.update(getattr(app, kind))
    return found


def _broken_apps(kind: str) -> list[str]:
    errors = [app for app in _apps().values() if isinstance(app, PalaestraError)] if kind in APP_PARTS else []
    return [error.message for error in errors]


def _singular(kind: str) -> str:
    words = kind.replace("_", " ")
    return f"{words.removesuffix('ies')}y" if words.endswith("ies") else words.removesuffix("s")


@cache
def _all() -> Any:
    """All installed packages are searched once, for all kinds."""
    return entry_points()


@cache
def _group(kind: str) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in _all().select(group=f"palaestra.{kind}")} if kind not in APP_PARTS else {}


@cache
def _old_group(kind: str) -> Mapping[str, EntryPoint]:
    old = OLD_GROUPS.get(kind)
    found = {point.name: point for point in _all().select(group=f"palaestra.{old}")} if old else {}
    for name in found:
        new = f"the field '{kind}' of an App (group 'palaestra.apps')" if kind in APP_PARTS else f"'palaestra.{kind}'"
        logger.warning("The entry point '%s' of the group 'palaestra.%s' is deprecated: use %s.", name, old, new)
    return found


@cache
def _apps() -> Mapping[str, App | PalaestraError]:
    """Apps by name. A broken one is an error instead, so that it takes no other app away."""
    return {name: _load_app(point) for name, point in _group("apps").items()}


def _load_app(point: EntryPoint) -> App | PalaestraError:
    try:
        app = load_reference(point, f"The app '{point.name}'")
    except UsageError as error:
        return error
    if not isinstance(app, App):
        return UsageError(f"The app '{point.name}' ({point.value}) is a {type(app).__name__}, not an App.")
    return app
