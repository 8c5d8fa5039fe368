"""YAML 1.2 text to plain data and back: no tags, no aliases, no duplicate keys, bounded size and depth.

A hostile file is refused while its events stream by, before any object is made of it.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent, ScalarEvent

from palaestra.contracts.errors import DamagedFile

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
PLAIN_TAGS = {None, "!"}


def parse_yaml(text: str | bytes, source: str = "this YAML") -> Any:
    """Plain dicts, lists, strings, numbers, booleans and None; anything else is refused with `source` named."""
    if len(text) > MAX_BYTES:
        raise DamagedFile(f"{source} has {len(text)} bytes; at most {MAX_BYTES} are read.")
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        _refuse_hostile_events(decoded, source)
        return _reader().load(decoded)
    except (YAMLError, UnicodeDecodeError, ValueError) as error:
        raise DamagedFile(f"{source} is not valid YAML: {' '.join(str(error).split())}.") from error


def dump_yaml(data: Any) -> str:
    """Block style, keys in the order given, one document."""
    stream = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # keep the order the models give
    writer.width = 10_000
    writer.dump(data, stream)
    return stream.getvalue()


def _reader() -> YAML:
    return YAML(typ="safe", pure=True)


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
