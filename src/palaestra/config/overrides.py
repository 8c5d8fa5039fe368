"""`key=value` words from a command line to a nested dictionary; the right-hand side is YAML 1.2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from palaestra.config.yaml import parse_yaml
from palaestra.core.errors import DamagedFile, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def parse_overrides(words: Iterable[str]) -> dict[str, Any]:
    """`["ppo.gamma=0.9", "total_steps=1e6"]` to `{"ppo": {"gamma": 0.9}, "total_steps": 1e6}`."""
    nested: dict[str, Any] = {}
    given: dict[str, str] = {}  # key -> the word that set it
    for word in words:
        key, value = split_setting(word)
        _refuse_clash(key, word, given)
        given[key] = word
        _set(nested, key.split("."), _read_value(key, value))
    return nested


def format_overrides(config: Mapping[str, Any]) -> list[str]:
    """The reverse of `parse_overrides`: `{"ppo": {"gamma": 0.9}}` to `["ppo.gamma=0.9"]`."""
    return [f"{path}={_write_value(value)}" for path, value in _leaves(config, "")]


def split_setting(word: str) -> tuple[str, str]:
    """Key and raw text of one `key=value`."""
    key, equals, value = word.partition("=")
    if not equals:
        raise UsageError(f"'{word}' is not a setting.", f"Settings are written key=value, for example {word}=1.")
    if not all(key.split(".")):
        raise UsageError(f"'{word}' has an empty key.", "Settings are written key=value or section.key=value.")
    return key, value


def _read_value(key: str, text: str) -> Any:
    if not text.strip():
        raise UsageError(f"'{key}=' has no value.", f"Write {key}=null for none, or {key}='\"\"' for an empty text.")
    try:
        return parse_yaml(text, f"the value of '{key}'")
    except DamagedFile as error:
        hint = f"Quote it to pass it as text: {key}='\"…\"'."
        raise UsageError(f"'{key}={text[:80]}' cannot be read: {error.message}", hint) from error


def _refuse_clash(key: str, word: str, given: dict[str, str]) -> None:
    if key in given:
        raise UsageError(f"'{key}' is set twice: '{given[key]}' and '{word}'.", "Keep one of them.")
    for other, other_word in given.items():
        if other.startswith(f"{key}.") or key.startswith(f"{other}."):
            raise UsageError(f"'{other_word}' and '{word}' set the same thing.", "Keep one of them.")


def _set(nested: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        nested = nested.setdefault(part, {})
    nested[path[-1]] = value


def nest(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same for Python callers: `{"ppo.gamma": 0.9}` and `{"ppo": {"gamma": 0.9}}` mean one thing."""
    nested: dict[str, Any] = {}
    given: dict[str, str] = {}
    for key, value in settings.items():
        _refuse_clash(key, key, given)
        given[key] = key
        _set(nested, key.split("."), value)
    return nested


def _leaves(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, dict) and value and all(_is_simple_key(inner) for inner in value):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_simple_key(key: object) -> bool:
    """Whether a word `section.key=value` reads back as this key."""
    return isinstance(key, str) and key != "" and not {".", "="} & set(key)


def _write_value(value: Any) -> str:
    """JSON, which is YAML; a plain word needs no quotes."""
    if isinstance(value, str) and value and value.replace("_", "a").replace("-", "a").isalnum() and value[0].isalpha():
        is_word = value.lower() not in {"null", "true", "false", "yes", "no", "on", "off"}
        return value if is_word else json.dumps(value)
    text = json.dumps(value, ensure_ascii=False)
    return "".join(character if character.isprintable() else f"\\U{ord(character):08x}" for character in text)
