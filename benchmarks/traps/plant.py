"""A defect as an edit of the source that puts it back in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    file: str  # under src/palaestra
    before: str  # stands there exactly once
    after: str


@dataclass(frozen=True)
class Plant:
    trap: int  # number in tests/test_traps.py
    what: str
    edits: tuple[Edit, ...]


def plant(trap: int, what: str, *edits: tuple[str, str, str]) -> Plant:
    return Plant(trap, what, tuple(Edit(*edit) for edit in edits))
