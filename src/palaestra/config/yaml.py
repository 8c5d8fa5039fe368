"""YAML 1.2 text to plain data and back: no tags, no aliases, no duplicate keys, bounded size and depth.

A hostile file is refused while its events stream by, before any object is made of it.
A date stays the text it was written as: `2026-01-02` is a fine name for a run.
"""

from __future__ import annotations

import re
from functools import lru_cache
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent, ScalarEvent
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter
from ruamel.yaml.resolver import VersionedResolver

from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_BRACKETS = 256  # open at once, counted without looking at quotes; the scanner is quadratic in them
BRACKETS = re.compile(r"[\[\]{}]")
PLAIN_TAGS = {None, "!"}


class TextTimestampConstructor(SafeConstructor):
    """Makes no dates."""


TextTimestampConstructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


class EscapingRepresenter(SafeRepresenter):
    """Quotes letters that YAML would read back as a line break."""

    def represent_text(self, text: str) -> ScalarNode:
        is_odd = not text.isprintable()
        node: ScalarNode = self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if is_odd else None)
        return node


EscapingRepresenter.add_representer(str, EscapingRepresenter.represent_text)


def parse_yaml(text: str | bytes, source: str = "this YAML") -> Any:
    """Plain dicts, lists, strings, numbers, booleans and None; anything else is refused with `source` named."""
    if len(text) > MAX_BYTES:
        raise DamagedFile(f"{source} has more than {MAX_BYTES} bytes; that is no configuration.")
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise DamagedFile(f"{source} is not valid YAML: {error}.") from error
    quick = parse_simple_yaml(decoded)
    return parse_full_yaml(decoded, source) if quick is NOT_SIMPLE else quick


def parse_full_yaml(text: str, source: str) -> Any:
    """All of YAML, every event looked at; takes a tenth of a millisecond for each."""
    try:
        _refuse_deep_brackets(text, source)
        _refuse_hostile_events(text, source)
        return _reader().load(text)
    except (YAMLError, ValueError, AssertionError) as error:  # the last: a version of YAML that ruamel does not know
        raise DamagedFile(f"{source} is not valid YAML: {' '.join(str(error).split())}.") from error


def read_yaml(path: Path) -> Any:
    """The content of a file; never more than the allowed bytes are read of it."""
    with path.open("rb") as stream:
        return parse_yaml(stream.read(MAX_BYTES + 1), str(path))


def dump_yaml(data: Any) -> str:
    """Block style, keys in the order given, one document."""
    quick = dump_simple_yaml(data)
    return dump_full_yaml(data) if quick is NOT_SIMPLE else str(quick)


def dump_full_yaml(data: Any) -> str:
    """Whatever can be said in YAML; takes a tenth of a millisecond for each word."""
    stream = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.Representer = EscapingRepresenter
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # keep the order the models give
    writer.width = 10_000
    writer.dump(data, stream)
    return stream.getvalue()


def _reader() -> YAML:
    reader = YAML(typ="safe", pure=True)
    reader.Constructor = TextTimestampConstructor
    return reader


def _refuse_deep_brackets(text: str, source: str) -> None:
    depth = 0
    for bracket in BRACKETS.finditer(text):  # one at a time: a bomb is known by its first few hundred
        depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
        if depth > MAX_BRACKETS:
            raise DamagedFile(f"{source} is nested deeper than {MAX_DEPTH} levels.")


def _refuse_hostile_events(text: str, source: str) -> None:
    depth = 0
    for event in _reader().parse(text):
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise DamagedFile(f"{source} is nested deeper than {MAX_DEPTH} levels.")
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        if isinstance(event, AliasEvent) or (isinstance(event, NodeEvent) and event.anchor is not None):
            raise DamagedFile(f"{source} uses YAML anchors or aliases; write the value out instead.")
        if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag not in PLAIN_TAGS:
            raise DamagedFile(f"{source} uses the YAML tag '{event.tag}'; only plain data is read.")


TEXT = "tag:yaml.org,2002:str"
KNOWN_WORDS = 512  # of each kind: more than one file has
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
NOT_SIMPLE: Final = object()

_resolver = VersionedResolver()


class _NotSimple(Exception):
    """Not what we write."""


def parse_simple_yaml(text: str) -> Any:
    """Plain data, or `NOT_SIMPLE`."""
    if not text.endswith("\n") or not text.isascii():
        return NOT_SIMPLE
    try:
        lines = [(len(line) - len(rest := line.lstrip(" ")), rest) for line in text[:-1].split("\n")]
        value, end = _block(lines, 0, 0, 1)
        return value if end == len(lines) else NOT_SIMPLE
    except _NotSimple:
        return NOT_SIMPLE


def _block(lines: list[tuple[int, str]], at: int, indent: int, depth: int) -> tuple[Any, int]:
    """The mapping or list that begins at line `at`, and the line after it."""
    if depth > MAX_DEPTH or lines[at][0] != indent:
        raise _NotSimple
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
            raise _NotSimple
        if rest is not None:
            entries[key], at = _scalar(rest), at + 1
            continue
        if at + 1 == count:
            raise _NotSimple
        below, first = lines[at + 1]
        is_list_beside = below == indent and first.startswith("- ")
        if below <= indent and not is_list_beside:
            raise _NotSimple
        entries[key], at = _block(lines, at + 1, below, depth + 1)
    return entries, at


@lru_cache(maxsize=KNOWN_WORDS)
def _entry(text: str) -> tuple[str, str | None]:
    """Key, and what stands beside it. The sidecars of a run say most of their lines two hundred times."""
    key, colon, rest = text.partition(":")
    if not colon or not _is_key(key) or (rest and (rest[0] != " " or len(rest) == 1)):
        raise _NotSimple
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
        raise _NotSimple
    return text


@lru_cache(maxsize=KNOWN_WORDS)
def _tag(text: str) -> str:
    """As what the complete reader would take it."""
    return str(_resolver.resolve(ScalarNode, text, (True, False)))


def dump_simple_yaml(data: Any) -> Any:
    """Text, or `NOT_SIMPLE`."""
    try:
        return "".join(f"{line}\n" for line in _lines(data, 1))
    except _NotSimple:
        return NOT_SIMPLE


def _lines(data: Any, depth: int) -> Iterator[str]:
    """Of a mapping or list that is not empty, as if it stood at the left margin."""
    if depth > MAX_DEPTH or not _is_block(data):
        raise _NotSimple
    return _lines_of_mapping(data, depth) if isinstance(data, dict) else _lines_of_list(data, depth)


def _lines_of_mapping(data: dict[Any, Any], depth: int) -> Iterator[str]:
    for key, value in data.items():
        if type(key) is not str or not _is_key(key):
            raise _NotSimple
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
    raise _NotSimple


@lru_cache(maxsize=KNOWN_WORDS)
def _written_text(text: str) -> str:
    """Plain where the reader takes it for a text, quoted where it would take it for something else."""
    if not text:
        return "''"
    if not SCALAR.fullmatch(text) or text[0] in "-.":
        raise _NotSimple
    return text if _tag(text) == TEXT else f"'{text}'"
