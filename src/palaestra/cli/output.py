"""What goes to stdout: one JSON object, or a table (rich on a terminal, plain aligned text elsewhere)."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, TextIO

from palaestra.core.errors import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LINES = "\n\t"


STDOUT, STDERR = 1, 2  # descriptors

_json_streams: list[TextIO] = []  # where JSON goes while stdout is kept for it; the last one counts


def print_json(data: Any, indent: int | None = 2) -> None:
    """Strict JSON: a number that is not finite becomes null."""
    print(json_text(data, indent), file=_json_streams[-1] if _json_streams else sys.stdout, flush=True)


def json_text(data: Any, indent: int | None = None) -> str:
    """JSON with the same values, but without control characters that a terminal would interpret."""
    text = json.dumps(to_json_data(data), indent=indent, ensure_ascii=False, allow_nan=False)
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


@contextmanager
def stdout_only_for_json() -> Iterator[None]:
    """In the block all else that is printed goes to stderr: by an environment, compiled code, a child process."""
    before = sys.stdout
    before.flush()
    kept = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    sys.stdout = sys.stderr
    try:
        with _stream_to(kept, before) as stream:
            _json_streams.append(stream)
            yield
    finally:
        _json_streams.pop()
        sys.stdout = before
        os.dup2(kept, STDOUT)
        os.close(kept)


@contextmanager
def _stream_to(descriptor: int, stdout: TextIO) -> Iterator[TextIO]:
    """`stdout`, which may be anything in a notebook or a test; a stream of its own where it is the one that moved."""
    try:
        is_moved = stdout.fileno() == STDOUT
    except (OSError, ValueError):
        is_moved = False
    if not is_moved:
        yield stdout
        return
    with os.fdopen(os.dup(descriptor), "w", encoding="utf-8", errors=stdout.errors) as stream:
        yield stream


def print_text(text: str) -> None:
    """Lines that others may have filled: YAML, a model card, a list of differences."""
    print(escape_controls(text, keep=LINES), end="" if text.endswith("\n") else "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str = "") -> None:
    """`empty` is said on stderr when there is no row, so that stdout stays a table."""
    cells = [[clean(cell) for cell in row] for row in rows]
    if not cells and empty:
        note(empty)
    elif is_fancy():
        _print_rich(columns, cells)
    else:
        widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
        for row in [list(columns), *cells]:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Name and value, one a line."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        print(f"{name:<{width}}  {clean(value)}")


def note(text: str) -> None:
    """For the person, not for the pipe."""
    print(escape_controls(text, keep=LINES), file=sys.stderr)


def is_fancy() -> bool:
    """A terminal that wants colours; NO_COLOR and TERM=dumb are honoured, FORCE_COLOR wins over no terminal."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def clean(value: object) -> str:
    """Control characters (also those that turn the writing direction) are shown, never sent to the terminal."""
    if value is None:
        return "-"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return escape_controls(text)


def to_json_data(data: Any) -> Any:
    """Dataclasses, tuples, paths and enums as JSON knows them."""
    if is_dataclass(data) and not isinstance(data, type):
        return to_json_data(asdict(data))
    if isinstance(data, dict):
        return {str(key): to_json_data(value) for key, value in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [to_json_data(value) for value in data]
    if isinstance(data, float):
        return data if isfinite(data) else None
    return data if data is None or isinstance(data, bool | int | str) else str(data)


def _print_rich(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))  # Text: a name is never read as markup
    Console().print(table)
