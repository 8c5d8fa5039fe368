"""A table whose numbers stand on colours, on a terminal that wants them; elsewhere a plain table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.analysis.colours import hexadecimal, shade_colour, text_colour
from palaestra.cli.output import clean, is_fancy, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    Shaded = tuple[object, float | None]  # what is written, and from 0 to 1 how high it is; None: no colour


def print_heat_table(columns: Sequence[str], rows: Sequence[Sequence[Shaded]]) -> None:
    if not is_fancy():
        print_table(columns, [[text for text, _ in row] for row in rows])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(clean(column)))
    for row in rows:
        table.add_row(
            *(Text(f" {clean(text)} " if shade is not None else clean(text), _style(shade)) for text, shade in row)
        )
    Console().print(table)


def _style(shade: float | None) -> str:
    if shade is None:
        return ""
    ground = shade_colour(shade)
    return f"{hexadecimal(text_colour(ground))} on {hexadecimal(ground)}"
