"""The table of faults between machines: one row per fault, printed at the end and kept in docs/benchmarks."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

HEADINGS = ("fault", "limit (s)", "ended or healed (s)", "lost", "doubled", "equal results", "outcome")
PAGE = """# Faults between machines

Every row builds fresh machines from network namespaces (own address, host name, processes, disk, `/tmp`), injects one
fault, and measures the seconds until all processes ended or the work went on. "Lost" and "doubled" count checkpoints,
episodes or trials; "equal results" compares with the same work on one machine: weights by SHA-256, episodes one by one.
A dash: does not apply. Delay and loss come from a cable in user space (`tests/machines/slow_link.py`), wrong clocks
from a small library (`tests/machines/wrong_clock.c`).

Repeat it with `make test-machines` (root, Linux). Code: {commits}.

{table}
{notes}"""


@dataclass
class Row:
    """What one test injected, and what it saw. Filled in by the test."""

    fault: str
    limit: float | None = None  # seconds
    seconds: float | None = None
    lost: int | None = None
    doubled: int | None = None
    equal: bool | None = None
    note: str = ""  # the message that a user sees
    outcome: str = "failed"
    commit: str = ""

    def check(self) -> None:
        """A row holds: within its limit, nothing lost or doubled, equal results."""
        assert self.limit is None or (self.seconds is not None and self.seconds <= self.limit), self
        assert not self.lost, self
        assert not self.doubled, self
        assert self.equal is not False, self


def commit_of(root: Path) -> str:
    """`ranks 1a2b3c4`, with a + where files differ from the commit."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", root, *arguments], capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = "+" if git("status", "--porcelain", "--untracked-files=no", "--", "src") else ""
    return f"{git('rev-parse', '--abbrev-ref', 'HEAD')} {git('rev-parse', '--short', 'HEAD')}{changed}"


def cells(row: Row) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)

    equal = {None: "-", True: "yes", False: "NO"}[row.equal]
    return (
        row.fault,
        number(row.limit),
        number(row.seconds),
        number(row.lost),
        number(row.doubled),
        equal,
        row.outcome,
    )


def as_text(rows: Iterable[Row]) -> str:
    lines = [HEADINGS, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def as_page(rows: Sequence[Row]) -> str:
    table = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    table += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    notes = [f"- {row.fault}: {row.note}" for row in rows if row.note]
    commits = ", ".join(sorted({row.commit for row in rows}))
    shown = "\n## Messages and notes\n\n" + "\n".join(notes) + "\n" if notes else ""
    return PAGE.format(commits=commits, table="\n".join(table) + "\n", notes=shown)


def merge(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Rows measured now replace those of the same fault; the order of the first measurement stays."""
    found = {row.fault: row for row in old}
    found.update({row.fault: row for row in new})
    return list(found.values())


def load(file: Path) -> list[Row]:
    return [Row(**entry) for entry in json.loads(file.read_text())["rows"]] if file.exists() else []


def write(folder: Path, new: Iterable[Row]) -> None:
    new = list(new)
    if not new:
        return
    rows = merge(load(folder / "machines.json"), new)
    (folder / "machines.json").write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=2) + "\n")
    (folder / "machines.md").write_text(as_page(rows))
