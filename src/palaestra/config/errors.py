"""Pydantic's validation errors as messages for users: the key, its value, what is allowed, and the nearest key."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from palaestra.config.keys import KeyInfo, list_keys, section_names
from palaestra.config.library_names import ALGORITHMS, translate_key
from palaestra.core.worker_kind import FieldError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    from palaestra.core.errors import PalaestraError


def describe_errors(model_type: type[BaseModel], error: ValidationError, algorithm: str = "") -> list[tuple[str, str]]:
    """(message, hint) of every error, in the order of the keys; `algorithm` is that of the training."""
    keys = {key.path: key for key in list_keys(model_type)}
    sections = section_names(model_type)
    return [_describe(details, keys, sections, algorithm) for details in error.errors(include_url=False)]


def field_errors_of(error: PalaestraError, model_type: type[BaseModel], key: str = "") -> list[FieldError]:
    """One entry for each invalid field if `error` comes from a validation; else the error itself, under `key`."""
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return [FieldError(key, error.message, error.hint, error.exit_code)]
    fields = [".".join(str(part) for part in details["loc"]) for details in cause.errors(include_url=False)]
    described = describe_errors(model_type, cause)
    return [FieldError(field, message, hint) for field, (message, hint) in zip(fields, described, strict=True)]


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


def _describe(details: ErrorDetails, keys: dict[str, KeyInfo], sections: list[str], algorithm: str) -> tuple[str, str]:
    path = ".".join(str(part) for part in details["loc"])
    if details["type"] == "extra_forbidden":
        return _unknown(path, keys, sections, algorithm)
    key, reason = keys.get(path), error_reason(details)
    names_value = details["type"] == "value_error" and not reason.startswith("must ")
    if details["type"] == "missing":
        message = f"Missing value for {path}."
    elif names_value and key is None:  # a rule between several keys of one section
        return f"{path or 'Invalid configuration'}: {reason}.", ""
    elif names_value:
        message = f"Invalid value for {path}: {reason}."
    else:
        message = f"Invalid value for {path}: {_show(details['input'])} ({reason})."
    return message, _expected(path, keys, details["type"] == "literal_error")


def _expected(path: str, keys: dict[str, KeyInfo], is_choice: bool) -> str:
    """The hint for a wrong value: what the key accepts and means."""
    key = keys.get(path)
    if key is not None and not key.is_section:
        return f"{path}: {key.description}." if is_choice else f"Expected: {key.accepts} ({key.description})."
    inside = next((name for name in keys if name.startswith(f"{path}.")), "")
    return f"{path} is a section; set for example {inside}=…" if inside else ""


def _unknown(path: str, keys: dict[str, KeyInfo], sections: list[str], algorithm: str) -> tuple[str, str]:
    known = [name for name in (*keys, *sections) if _concerns(name, path, algorithm)]
    other = translate_key(path, algorithm) if "ppo" in sections else ""  # the names of a training's settings
    near = "" if other else nearest_key(path, known)
    hint = f"Did you mean '{near}'?" if near else other or "'palaestra config keys' lists all keys."
    return f"No key named '{path}'.", hint


def _concerns(name: str, unknown: str, algorithm: str) -> bool:
    """Keys of other algorithms than the chosen one are not what was meant, unless their section was named."""
    section = name.partition(".")[0]
    return section not in ALGORITHMS or section in (algorithm or ALGORITHMS[0], unknown.partition(".")[0])


# By pydantic's error type; {…} are its limits. Other types keep pydantic's message.
REASONS = {
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "available: {expected}",
    "enum": "available: {expected}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a section of settings",
    "model_type": "must be a section of settings",
    "missing": "is missing",
}


def error_reason(details: ErrorDetails) -> str:
    """Why a value is invalid: `must be at least 1`."""
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    if details["type"] in REASONS:
        limits = {name: _limit(limit) for name, limit in details.get("ctx", {}).items()}
        return REASONS[details["type"]].format(**limits)
    text = details["msg"].removeprefix("Input should be ")
    return f"must be {text}" if text != details["msg"] else text


def _limit(limit: Any) -> str:
    """`1` for 1.0, and `auto, cpu, cuda` for pydantic's list of choices."""
    if isinstance(limit, float):
        return f"{limit:g}"
    return str(limit).replace(" or ", ", ").replace("'", "") if isinstance(limit, str) else str(limit)


def _show(value: Any) -> str:
    """As YAML writes it, cut at 60 characters."""
    text = {"None": "null", "True": "true", "False": "false"}.get(repr(value), repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."
