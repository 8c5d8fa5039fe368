"""`palaestra cleanrl scan CHECKOUT`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.cli.command import Command, Group
from palaestra.cli.output import note, print_json, print_table
from palaestra.core import plugins
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser


def _scan_arguments(parser: Parser) -> None:
    parser.add_argument("checkout", metavar="CHECKOUT", help="folder of a CleanRL checkout, or of similar scripts")
    parser.add_flag("--json", action="store_true", help="print a JSON list on stdout")


def run_scan(arguments: Namespace) -> int:
    """Nothing is imported or run for it. The checkout is remembered, and its scripts are offered on the page."""
    found = plugins.load("scanners", "cleanrl")(Path(arguments.checkout), RunStore().root)
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        (one.path, one.algorithm, one.actions, one.arguments, "yes" if one.saves else "no", ", ".join(one.needs))
        for one in found
        if not one.problem
    ]
    print_table(
        ("script", "algorithm", "actions", "arguments", "saves itself", "lacks here"),
        rows,
        empty=f"No script that takes an env_id was found in {arguments.checkout}.",
    )
    for one in found:
        if one.problem:
            note(f"{one.path}: {one.problem}")
    return 0


COMMAND = Group(
    name="cleanrl",
    summary="scripts of a CleanRL checkout, which 'palaestra train cleanrl script=PATH' runs unmodified",
    actions={
        "scan": Command(
            name="cleanrl scan",
            summary="list all scripts with their algorithm, action space and missing packages",
            examples=(
                "palaestra cleanrl scan .",
                "palaestra cleanrl scan ~/cleanrl",
                "palaestra cleanrl scan . --json",
            ),
            add_arguments=_scan_arguments,
            run=run_scan,
        )
    },
    examples=("palaestra cleanrl scan .", "palaestra cleanrl scan ~/cleanrl", "palaestra cleanrl scan . --json"),
)
