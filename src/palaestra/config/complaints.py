"""What pydantic found wrong, as small lessons: the key, the value given, what would be right."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from palaestra.config.keys import KeyInfo, list_keys, section_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails


def describe_all(model_type: type[BaseModel], error: ValidationError) -> list[tuple[str, str]]:
    """(message, hint) of every mistake, in the order of the keys."""
    keys = {key.path: key for key in list_keys(model_type)}
    sections = section_names(model_type)
    return [_describe(details, keys, sections) for details in error.errors(include_url=False)]


def nearest_key(unknown: str, known: Iterable[str]) -> str:
    """The known key that was most likely meant, or an empty string.

    First a sibling with a similar name, then the same last word elsewhere, then anything similar.
    """
    paths = list(known)
    parent, _, leaf = unknown.rpartition(".")
    siblings = [path for path in paths if path.rpartition(".")[0] == parent]
    near = get_close_matches(unknown, siblings, n=1, cutoff=0.6)
    if not near:
        near = [path for path in paths if path.rpartition(".")[2] == leaf]
    if not near:
        near = get_close_matches(unknown, paths, n=1, cutoff=0.6)
    if not near:
        by_leaf = {path.rpartition(".")[2]: path for path in reversed(paths)}
        near = [by_leaf[name] for name in get_close_matches(leaf, by_leaf, n=1, cutoff=0.7)]
    return near[0] if near else ""


def _describe(details: ErrorDetails, keys: dict[str, KeyInfo], sections: list[str]) -> tuple[str, str]:
    path = ".".join(str(part) for part in details["loc"])
    if details["type"] == "extra_forbidden":
        return _unknown(path, keys, sections)
    setting = f"{path}={_show(details['input'])}"
    key = keys.get(path)
    if key is not None and not key.is_section:
        return f"'{setting}' cannot be: {_reason(details)}.", f"{path} is {key.accepts}: {key.description}."
    if details["type"] == "value_error":  # a rule between several keys of one section
        return f"{path or 'these settings'}: {_reason(details)}.", ""
    inside = [name for name in keys if name.startswith(f"{path}.")]
    hint = f"{path} is a section; set for example {inside[0]}=…" if inside else ""
    return f"'{setting}' cannot be: {_reason(details)}.", hint


def _unknown(path: str, keys: dict[str, KeyInfo], sections: list[str]) -> tuple[str, str]:
    near = nearest_key(path, [*keys, *sections])
    hint = f"Did you mean '{near}'?" if near else "'palaestra config keys' lists all keys."
    return f"No key is called '{path}'.", hint


def _reason(details: ErrorDetails) -> str:
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    text = details["msg"].removeprefix("Input should be ")
    return f"it should be {text}" if text != details["msg"] else text


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
