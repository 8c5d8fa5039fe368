"""The YAML that we write ourselves, read and written fifty times faster; anything else is left to the complete one.

Block mappings and lists of plain or single-quoted scalars, one on a line. Whatever is not plainly of this kind is
`NOT_PLAIN`, and never a guess: on all other text the answer equals that of the complete reader, and what is written is
what the complete writer writes, letter for letter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 32
TEXT = "tag:yaml.org,2002:str"
KNOWN_WORDS = 512  # of each kind: more than a file has. A sidecar brings a dozen that nobody says again once it is gone
SCALAR = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+@=()-]*(?: [A-Za-z0-9_./+@=()-]+)*", re.ASCII)
QUOTED = re.compile(r"'((?:[ -&(-~]|'')*)'")
KEY = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*", re.ASCII)
ENTRY = re.compile(rf"{KEY.pattern}:(?: .+)?", re.ASCII)
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
FLOAT = re.compile(r"-?[0-9]+(?:\.[0-9]+(?:e[+-]?[0-9]+)?|e[+-]?[0-9]+)", re.ASCII)
WORDS: Final[dict[str, Any]] = {
    "null": None,
    "true": True,
    "false": False,
    "{}": {},
    "[]": [],
    ".inf": float("inf"),
    "-.inf": float("-inf"),
    ".nan": float("nan"),
}
NOT_PLAIN: Final = object()

_resolver = VersionedResolver()


class _Odd(Exception):
    """Not what we write."""


def read_plain_yaml(text: str) -> Any:
    """Plain data, or `NOT_PLAIN`."""
    if not text.endswith("\n") or not text.isascii():
        return NOT_PLAIN
    try:
        lines = [(len(line) - len(rest := line.lstrip(" ")), rest) for line in text[:-1].split("\n")]
        value, end = _block(lines, 0, 0, 1)
        return value if end == len(lines) else NOT_PLAIN
    except _Odd:
        return NOT_PLAIN


def _block(lines: list[tuple[int, str]], at: int, indent: int, depth: int) -> tuple[Any, int]:
    """The mapping or list that begins at line `at`, and the line after it."""
    if depth > MAX_DEPTH or lines[at][0] != indent:
        raise _Odd
    read = _list if lines[at][1].startswith("- ") else _mapping
    return read(lines, at, indent, depth)


def _list(lines: list[tuple[int, str]], at: int, indent: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while at < len(lines) and lines[at][0] == indent and lines[at][1].startswith("- "):
        rest = lines[at][1][2:]
        if rest.startswith("- ") or ENTRY.fullmatch(rest):
            lines[at] = (indent + 2, rest)
            item, at = _block(lines, at, indent + 2, depth + 1)
        else:
            item, at = _scalar(rest), at + 1
        items.append(item)
    return items, at


def _mapping(lines: list[tuple[int, str]], at: int, indent: int, depth: int) -> tuple[dict[str, Any], int]:
    entries: dict[str, Any] = {}
    count = len(lines)
    while at < count:
        here, text = lines[at]
        if here != indent or text[:2] == "- ":
            break
        key, rest = _entry(text)
        if key in entries:
            raise _Odd
        if rest is not None:
            entries[key], at = _scalar(rest), at + 1
            continue
        if at + 1 == count:
            raise _Odd
        below, first = lines[at + 1]
        is_list_beside = below == indent and first.startswith("- ")
        if below <= indent and not is_list_beside:
            raise _Odd
        entries[key], at = _block(lines, at + 1, below, depth + 1)
    return entries, at


@lru_cache(maxsize=KNOWN_WORDS)
def _entry(text: str) -> tuple[str, str | None]:
    """Key, and what stands beside it. The sidecars of a run say most of their lines two hundred times."""
    key, colon, rest = text.partition(":")
    if not colon or not _is_key(key) or (rest and (rest[0] != " " or len(rest) == 1)):
        raise _Odd
    return key, rest[1:] or None


@lru_cache(maxsize=KNOWN_WORDS)
def _is_key(text: str) -> bool:
    return KEY.fullmatch(text) is not None and _tag(text) == TEXT


def _scalar(text: str) -> Any:
    if text in WORDS:
        word = WORDS[text]
        return word.copy() if isinstance(word, dict | list) else word
    return _read_scalar(text)


@lru_cache(maxsize=KNOWN_WORDS)
def _read_scalar(text: str) -> str | int | float:
    if quoted := QUOTED.fullmatch(text):
        return quoted[1].replace("''", "'")
    if INTEGER.fullmatch(text):
        return int(text)
    if FLOAT.fullmatch(text):
        return float(text)
    if not SCALAR.fullmatch(text) or text[0] in "-." or _tag(text) != TEXT:
        raise _Odd
    return text


@lru_cache(maxsize=KNOWN_WORDS)
def _tag(text: str) -> str:
    """As what the complete reader would take it."""
    return str(_resolver.resolve(ScalarNode, text, (True, False)))


def write_plain_yaml(data: Any) -> Any:
    """Text, or `NOT_PLAIN`."""
    try:
        return "".join(f"{line}\n" for line in _lines(data, 1))
    except _Odd:
        return NOT_PLAIN


def _lines(data: Any, depth: int) -> Iterator[str]:
    """Of a mapping or list that is not empty, as if it stood at the left margin."""
    if depth > MAX_DEPTH or not _is_block(data):
        raise _Odd
    return _lines_of_mapping(data, depth) if isinstance(data, dict) else _lines_of_list(data, depth)


def _lines_of_mapping(data: dict[Any, Any], depth: int) -> Iterator[str]:
    for key, value in data.items():
        if type(key) is not str or not _is_key(key):
            raise _Odd
        if not _is_block(value):
            yield f"{key}: {_written(value)}"
            continue
        yield f"{key}:"
        margin = "" if isinstance(value, list) else "  "
        for line in _lines(value, depth + 1):
            yield margin + line


def _lines_of_list(data: list[Any], depth: int) -> Iterator[str]:
    for item in data:
        if not _is_block(item):
            yield f"- {_written(item)}"
            continue
        for number, line in enumerate(_lines(item, depth + 1)):
            yield f"{'  ' if number else '- '}{line}"


def _is_block(value: Any) -> bool:
    return type(value) in {dict, list} and bool(value)


def _written(value: Any) -> str:
    if type(value) is str:
        return _written_text(value)
    word = next((word for word, meant in WORDS.items() if type(meant) is type(value) and meant == value), "")
    if word:
        return word
    text = repr(value).lower()
    if type(value) is int and INTEGER.fullmatch(text):
        return text
    if type(value) is float and FLOAT.fullmatch(text):
        return text
    raise _Odd


@lru_cache(maxsize=KNOWN_WORDS)
def _written_text(text: str) -> str:
    """Plain where the reader takes it for a text, quoted where it would take it for something else."""
    if not text:
        return "''"
    if not SCALAR.fullmatch(text) or text[0] in "-.":
        raise _Odd
    return text if _tag(text) == TEXT else f"'{text}'"
