"""The `schema_version` that every JSON and YAML file of ours carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from pathlib import Path

KEY = "schema_version"


class NewerFormat(DamagedFile):
    """Nothing is wrong with the file: a later version of Palaestra wrote it."""


def stamped(data: dict[str, Any], version: int) -> dict[str, Any]:
    """The same data with its version in front."""
    return {KEY: version, **data}


def unstamped(data: Any, version: int, path: Path) -> dict[str, Any]:
    """The data without its version, once that is known to be one we can read."""
    if not isinstance(data, dict):
        raise DamagedFile(f"{path} holds a {type(data).__name__} where a mapping was expected.")
    found = data.get(KEY)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise DamagedFile(f"{path} has {KEY} {found!r}; a number from 1 to {version} was expected.")
    if found > version:
        raise NewerFormat(
            f"{path} has {KEY} {found}; this Palaestra reads 1 to {version}.",
            "It was written by a newer version; install that one to use it.",
        )
    return {key: value for key, value in data.items() if key != KEY}
