"""A `Status` as a table for a terminal, or as one plain line. Pure functions: nothing is printed here.

The table is laid out by hand: rich's own Table and Panel take 6 ms to draw, which four times a second would be
2.5 % of a training run; this takes a sixth of that.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from palaestra.core.lazy_import import lazy_import

if TYPE_CHECKING:
    from rich import cells
    from rich import text as rich_text
    from rich.text import Text

    from palaestra.loggers.status import Figure, Status, TaskStatus
else:
    cells = lazy_import("rich.cells")  # not for plain lines
    rich_text = lazy_import("rich.text")

UNKNOWN = "-"
TABLE_WIDTH = 78  # leaves the last columns of an 80-column terminal free, where some of them wrap
INNER_WIDTH = TABLE_WIDTH - 4
LABEL_WIDTH = 14
VALUE_WIDTH = INNER_WIDTH // 2 - LABEL_WIDTH
TASK_ROWS = 8
TASK_NAME_WIDTH = 24
TASK_BAR_WIDTH = 20


def status_table(status: Status) -> Text:
    header = status.header
    table = rich_text.Text(no_wrap=True, end="")
    _border(table, "╭", f"{_cut(header.name, 34)} · {_cut(header.recipe, 30)}", "╮")
    _line(table, *_progress(status))
    for left_label, left, right_label, right in _rows(status):
        _line(table, *_cell(left_label, left), *_cell(right_label, right))
    _line(table, *_cell("time", _split(status)))
    for pieces in _task_rows(status):
        _line(table, *pieces)
    table.append("\n")
    _border(table, "╰", _cut(str(header.directory), 70), "╯")
    return table


def status_line(status: Status) -> str:
    """For logs and pipes: what changed most, on one line, without colour."""
    parts = [
        f"step {status.step:,}/{status.header.total_steps:,} ({status.share_done:.0%})",
        f"{_count(status.steps_per_second)} steps/s",
        f"ETA {duration(status.seconds_left)}",
        f"return {_number(status.last_return)}",
        f"length {_number(status.last_length)}",
        *(f"{figure.label} {_figure(figure)}" for figure in status.line_figures),
    ]
    if status.tasks_completed is not None:
        parts.append(f"tasks {status.tasks_completed:,} ({_number(status.tasks_per_second)}/s)")
    if status.evaluation is not None:
        parts.append(f"eval {_number(status.evaluation[1])}")
    return " | ".join(parts)


def printable_text(text: str) -> str:
    """A name or a message may hold escape sequences; on a terminal they must not act."""
    return "".join(character if character.isprintable() else "?" for character in text)


def duration(seconds: float | None) -> str:
    """`0:42`, `12:05`, `3:07:00`, `2d 03h`."""
    if seconds is None:
        return UNKNOWN
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24}d {hours % 24:02d}h"
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def _border(table: Text, left: str, title: str, right: str) -> None:
    dashes = TABLE_WIDTH - 4 - cells.cell_len(title)
    before = dashes // 2
    table.append(left + "─" * before + " ", "dim")
    table.append(title, "bold")
    table.append(" " + "─" * (dashes - before) + right, "dim")


def _line(table: Text, *pieces: tuple[str, str]) -> None:
    """Pieces are (text, style); together they fill the inside of the table, padded at the end."""
    table.append("\n│ ", "dim")
    used = 0
    for text, style in pieces:
        table.append(text, style)
        used += cells.cell_len(text)
    table.append(" " * (INNER_WIDTH - used))
    table.append(" │", "dim")


def _cell(label: str, value: str) -> tuple[tuple[str, str], tuple[str, str]]:
    width = max(VALUE_WIDTH, cells.cell_len(value) if label == "time" else 0)
    return (cells.set_cell_size(label, LABEL_WIDTH), "dim"), (cells.set_cell_size(value, width), "bold")


def _progress(status: Status) -> tuple[tuple[str, str], ...]:
    done = f"{status.step:,}"
    total = f" / {status.header.total_steps:,} "
    percent = f" {status.share_done:4.0%}"
    bar_width = INNER_WIDTH - len(done) - len(total) - len(percent)
    filled = round(bar_width * status.share_done)
    return (done, "bold"), (total, ""), ("━" * filled, "green"), ("─" * (bar_width - filled), "dim"), (percent, "")


def _rows(status: Status) -> list[tuple[str, str, str, str]]:
    """What every run has on the left, the figures of the algorithm on the right."""
    left = [
        ("return", _number(status.last_return)),
        ("length", _number(status.last_length)),
        ("episodes", f"{status.episode_count:,}"),
        ("evaluation", _evaluation(status)),
        ("checkpoint", _checkpoint(status)),
    ]
    right = [(figure.label, _figure(figure)) for figure in status.figures]
    rows = zip_longest(left, right, fillvalue=("", ""))
    return [
        ("steps/s", _count(status.steps_per_second), "ETA", duration(status.seconds_left)),
        *((*own, *figure) for own, figure in rows),
    ]


def _task_rows(status: Status) -> list[tuple[tuple[str, str], ...]]:
    """With a curriculum: how many tasks were completed, and those drawn most with their share and return."""
    if status.tasks_completed is None:
        return []
    rows: list[tuple[tuple[str, str], ...]] = [
        (
            *_cell("tasks", f"{status.tasks_completed:,}"),
            *_cell("tasks/s", _number(status.tasks_per_second)),
        )
    ]
    drawn_most = sorted(status.tasks, key=lambda task: -task.share)[:TASK_ROWS]
    rows += [_task_row(task) for task in drawn_most]
    hidden = len(status.tasks) - len(drawn_most)
    if hidden:
        rows.append(((f"  and {hidden} more", "dim"),))
    return rows


def _task_row(task: TaskStatus) -> tuple[tuple[str, str], ...]:
    filled = round(TASK_BAR_WIDTH * task.share)
    name = cells.set_cell_size(_cut(task.name, TASK_NAME_WIDTH), TASK_NAME_WIDTH)
    last_return = cells.set_cell_size(
        f" return {_number(task.last_return)}", INNER_WIDTH - TASK_NAME_WIDTH - TASK_BAR_WIDTH - 8
    )
    return (
        (f"  {name} ", "dim"),
        ("━" * filled, "green"),
        ("─" * (TASK_BAR_WIDTH - filled), "dim"),
        (f" {task.share:4.0%}", ""),
        (last_return, "bold"),
    )


def _evaluation(status: Status) -> str:
    if status.evaluation is None:
        return UNKNOWN
    step, mean = status.evaluation
    return f"{_number(mean)} at {_short(step)}"


def _checkpoint(status: Status) -> str:
    if status.checkpoint is None:
        return UNKNOWN
    epoch, step = status.checkpoint
    return f"{epoch} at {_short(step)}"


def _split(status: Status) -> str:
    return " ".join(f"{phase} {share:.0%}" for phase, share in status.phase_shares) or UNKNOWN


def _short(step: int) -> str:
    for unit, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if step >= unit:
            return f"{step / unit:.4g}{name}"
    return str(step)


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}"


def _figure(figure: Figure) -> str:
    return _count(figure.value) if figure.is_count else _fraction(figure.value)


def _fraction(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4g}"


def _cut(text: str, width: int) -> str:
    """The end says more than the beginning: of a path the last part, of a name its number."""
    cut = printable_text(text)
    while cells.cell_len(cut) > width:
        cut = "…" + cut[2:]
    return cut
