"""`palaestra repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import note, print_json
from palaestra.daemon.repair import repair_index
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    parser.add_flag("--json", action="store_true", help="one JSON object on stdout")


def run(arguments: Namespace) -> int:
    repaired = repair_index(runs_root())
    if arguments.json:
        print_json(repaired)
        return 0
    note(f"{repaired.runs} runs indexed, {repaired.waiting} of them queued.")
    if repaired.unreadable:
        note(f"Listed as lost, because their files are damaged: {', '.join(repaired.unreadable)}.")
    if repaired.backup is not None:
        note(f"The old index is kept as {repaired.backup}.")
    return 0


COMMAND = Command(
    name="repair",
    summary="rebuild the daemon's index from the runs; runs are not changed",
    examples=("palaestra repair", "palaestra repair --json", "palaestra repair -h"),
    add_arguments=add_arguments,
    run=run,
)
