"""What goes to stdout: one JSON object, or a table (rich on a terminal, plain aligned text elsewhere)."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, is_dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def print_json(data: Any) -> None:
    """Strict JSON: a number that is not finite becomes null."""
    print(json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False))


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
    print(text, file=sys.stderr)


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
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def plain(data: Any) -> Any:
    """Dataclasses, tuples, paths and enums as JSON knows them."""
    if is_dataclass(data) and not isinstance(data, type):
        return plain(asdict(data))
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [plain(value) for value in data]
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
