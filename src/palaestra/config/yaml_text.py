"""YAML 1.2 text to plain data and back: no tags, no aliases, no duplicate keys, bounded size and depth.

A hostile file is refused while its events stream by, before any object is made of it.
A date stays the text it was written as: `2026-01-02` is a fine name for a run.
"""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent, ScalarEvent
from ruamel.yaml.representer import SafeRepresenter

from palaestra.config.plain_yaml import NOT_PLAIN, read_plain_yaml, write_plain_yaml
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from pathlib import Path

    from ruamel.yaml.nodes import ScalarNode

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_BRACKETS = 256  # open at once, counted without looking at quotes; the scanner is quadratic in them
BRACKETS = re.compile(r"[\[\]{}]")
PLAIN_TAGS = {None, "!"}


class PlainConstructor(SafeConstructor):
    """Makes no dates."""


PlainConstructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


class CarefulRepresenter(SafeRepresenter):
    """Quotes letters that YAML would read back as a line break."""

    def represent_text(self, text: str) -> ScalarNode:
        is_odd = not text.isprintable()
        node: ScalarNode = self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if is_odd else None)
        return node


CarefulRepresenter.add_representer(str, CarefulRepresenter.represent_text)


def parse_yaml(text: str | bytes, source: str = "this YAML") -> Any:
    """Plain dicts, lists, strings, numbers, booleans and None; anything else is refused with `source` named."""
    if len(text) > MAX_BYTES:
        raise DamagedFile(f"{source} has more than {MAX_BYTES} bytes; that is no configuration.")
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise DamagedFile(f"{source} is not valid YAML: {error}.") from error
    quick = read_plain_yaml(decoded)
    return parse_carefully(decoded, source) if quick is NOT_PLAIN else quick


def parse_carefully(text: str, source: str) -> Any:
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
    quick = write_plain_yaml(data)
    return dump_carefully(data) if quick is NOT_PLAIN else str(quick)


def dump_carefully(data: Any) -> str:
    """Whatever can be said in YAML; takes a tenth of a millisecond for each word."""
    stream = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.Representer = CarefulRepresenter
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # keep the order the models give
    writer.width = 10_000
    writer.dump(data, stream)
    return stream.getvalue()


def _reader() -> YAML:
    reader = YAML(typ="safe", pure=True)
    reader.Constructor = PlainConstructor
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
