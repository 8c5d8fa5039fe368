"""`annotations.json`: what people add to a run afterwards. Nothing of it changes what the run does."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from palaestra.core.errors import DamagedFile, NotFound, UsageError
from palaestra.runs.files import read_json, stamped, unstamped, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory

SCHEMA_VERSION = 1
MOST_TAGS = 32
LONGEST_TAG = 64
LONGEST_NOTE = 10_000


@dataclass(frozen=True)
class Annotations:
    tags: tuple[str, ...] = ()  # sorted, each once
    note: str = ""
    parent: str = ""  # id of the run that this one was made from or judges


def annotations_file(directory: RunDirectory) -> Path:
    return directory.path / "annotations.json"


def read_annotations(directory: RunDirectory) -> Annotations:
    """Empty when there are none, or when they cannot be read: a tag is not worth a failure."""
    path = annotations_file(directory)
    try:
        data = unstamped(read_json(path), SCHEMA_VERSION, path)
        return Annotations(tuple(map(str, data["tags"])), str(data["note"]), str(data["parent"]))
    except (DamagedFile, NotFound, KeyError, TypeError):
        return Annotations()


def write_annotations(directory: RunDirectory, annotations: Annotations) -> None:
    write_json(annotations_file(directory), stamped(asdict(annotations), SCHEMA_VERSION))


def check_tags(tags: list[str]) -> tuple[str, ...]:
    """Sorted, each once; UsageError names what cannot be a tag."""
    if len(set(tags)) > MOST_TAGS:
        raise UsageError(f"A run has at most {MOST_TAGS} tags, not {len(set(tags))}.")
    for tag in tags:
        if not tag.strip() or len(tag) > LONGEST_TAG or not tag.isprintable() or tag != tag.strip():
            raise UsageError(f"{tag[:LONGEST_TAG]!r} cannot be a tag.", f"Use up to {LONGEST_TAG} letters.")
    return tuple(sorted(set(tags)))
