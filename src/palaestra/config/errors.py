"""What pydantic found wrong, as small lessons: the key, the value given, what would be right."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from palaestra.config.keys import KeyInfo, list_keys, section_names
from palaestra.config.other_names import describe_other_name

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
        return f"'{setting}' cannot be: {reason_of(details)}.", f"{path} is {key.accepts}: {key.description}."
    if details["type"] == "value_error":  # a rule between several keys of one section
        return f"{path or 'these settings'}: {reason_of(details)}.", ""
    inside = [name for name in keys if name.startswith(f"{path}.")]
    hint = f"{path} is a section; set for example {inside[0]}=…" if inside else ""
    return f"'{setting}' cannot be: {reason_of(details)}.", hint


def _unknown(path: str, keys: dict[str, KeyInfo], sections: list[str]) -> tuple[str, str]:
    known = [*keys, *sections]
    other = describe_other_name(path) if "ppo" in sections else ""  # the names of a training's settings
    near = "" if other else nearest_key(path, known)
    hint = f"Did you mean '{near}'?" if near else other or "'palaestra config keys' lists all keys."
    return f"No key is called '{path}'.", hint


# By pydantic's type of error; {…} are its figures. What is not named here keeps pydantic's words.
REASONS = {
    "greater_than": "it must be above {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be below {lt}",
    "less_than_equal": "it must be at most {le}",
    "int_parsing": "it must be a whole number",
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_parsing": "it must be a number",
    "float_type": "it must be a number",
    "finite_number": "it must be a finite number",
    "bool_parsing": "it must be true or false",
    "bool_type": "it must be true or false",
    "string_type": "it must be text",
    "string_too_short": "it must have at least {min_length} characters",
    "string_too_long": "it must have at most {max_length} characters",
    "string_pattern_mismatch": "it must match {pattern}",
    "too_short": "it must have at least {min_length} entries",
    "too_long": "it must have at most {max_length} entries",
    "literal_error": "it must be {expected}",
    "enum": "it must be {expected}",
    "list_type": "it must be a list",
    "tuple_type": "it must be a list",
    "dict_type": "it must be a section of settings",
    "model_type": "it must be a section of settings",
    "missing": "it is missing",
}


def reason_of(details: ErrorDetails) -> str:
    """Why pydantic refused a value, in our words."""
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    if details["type"] in REASONS:
        figures = details.get("ctx", {})
        plain = {name: f"{one:g}" if isinstance(one, float) else one for name, one in figures.items()}  # 1, not 1.0
        return REASONS[details["type"]].format(**plain)
    text = details["msg"].removeprefix("Input should be ")
    return f"it must be {text}" if text != details["msg"] else text


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
