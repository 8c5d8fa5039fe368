"""A verb that a plugin brings (group `palaestra.commands`): light to load, its work is imported when it is asked for.

The command line lists it in --help, parses its words, calls the work, and prints the answer, as JSON where asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable


@dataclass(frozen=True)
class Answer:
    """What a verb has to say. `data` is for programs, the table and the notes are for people."""

    data: dict[str, Any]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    notes: tuple[str, ...] = field(default=())  # lines for stderr, after the table
    exit_code: int = 0


@dataclass(frozen=True)
class CommandPlugin:
    """Give this in a module that imports nothing heavy: `palaestra --help` loads it."""

    summary: str
    examples: tuple[str, str, str]
    add_arguments: Callable[[ArgumentParser], None]  # `--json` is there already
    work: str  # "package.module:function"; Namespace -> Answer
