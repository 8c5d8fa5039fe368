"""`palaestra runs disk`: what runs take on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import print_json, print_table
from palaestra.cli.targets import run_names
from palaestra.daemon.settings import DaemonDirectory
from palaestra.runs.disk_use import measure_disk_use
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.parser import Parser
    from palaestra.runs.disk_use import DiskUse

UNITS = ("B", "kB", "MB", "GB", "TB")
SHOWN_PARTS = 3


def run_disk(arguments: Namespace) -> int:
    store = RunStore()
    ids = [store.resolve(name).id for name in arguments.runs] or [record.id for record in store.list()]
    home = DaemonDirectory(store.root)
    measured = [(run_id, measure_disk_use(store.directory(run_id), home.series_directory(run_id))) for run_id in ids]
    measured.sort(key=lambda one: -one[1].total)
    names = {record.id: record.name for record in store.list()}
    if arguments.json:
        print_json([{"id": one, "name": names[one], "bytes": use.total, "parts": use.parts} for one, use in measured])
        return 0
    rows = [(names[one], one, format_bytes(use.total), _largest_parts(use)) for one, use in measured]
    if len(rows) > 1:
        rows.append(("all", "", format_bytes(sum(use.total for _, use in measured)), ""))
    print_table(
        ("name", "id", "disk", "largest parts"), rows, empty="No runs here yet. Start one: palaestra train cartpole"
    )
    return 0


def format_bytes(count: float) -> str:
    """1.5 MB: three digits, in powers of a thousand."""
    unit = 0
    while count >= 1000 and unit < len(UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} B" if unit == 0 else f"{count:.3g} {UNITS[unit]}"


def _largest_parts(use: DiskUse) -> str:
    return ", ".join(f"{part} {format_bytes(size)}" for part, size in list(use.parts.items())[:SHOWN_PARTS])


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("runs", nargs="*", metavar="run", help="ids, names, or latest; all runs without one")
    parser.add_flag("--json", action="store_true", help="JSON on stdout, nothing else there")


def _names(_words: Sequence[str]) -> list[str]:
    return run_names()


DISK = Command(
    name="runs disk",
    summary="what runs take on the disk, the largest first",
    examples=("palaestra runs disk", "palaestra runs disk latest", "palaestra runs disk --json"),
    add_arguments=_add_arguments,
    run=run_disk,
    candidates=_names,
)
