"""`palaestra checkpoints upload RUN[:SELECTOR] OWNER/NAME [--public] [--dry-run]`: a policy for the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import clean, note, print_json, print_text
from palaestra.cli.targets import run_selectors

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="RUN, RUN:best, RUN:EPOCH, or a path")
    parser.add_argument("repo_id", metavar="OWNER/NAME", help="where it goes on the hub; made when it is not there")
    parser.add_flag("--public", action="store_true", help="for everybody to see; otherwise a new place is private")
    parser.add_flag("--dry-run", action="store_true", help="show what would be sent, and send nothing")
    parser.add_flag("--json", action="store_true", help="one JSON object on stdout, nothing else there")


def run(arguments: Namespace) -> int:
    from palaestra.checkpoints.hub import packed, upload_to_hub

    if arguments.dry_run:
        with packed(arguments.target, arguments.repo_id) as parcel:
            if arguments.json:
                print_json({"repo_id": parcel.repo_id, "files": parcel.files, "card": parcel.card, "sent": False})
                return 0
            for name, size in parcel.files.items():
                note(f"{name}: {size} bytes")
            note(f"nothing was sent to {clean(parcel.repo_id)}; the card would be:")
            print_text(parcel.card)
        return 0
    address = upload_to_hub(arguments.target, arguments.repo_id, private=not arguments.public)
    if arguments.json:
        print_json({"repo_id": arguments.repo_id, "address": address, "sent": True})
    else:
        print(clean(address))
    return 0


UPLOAD = Command(
    name="checkpoints upload",
    summary="weights, sidecar and a model card to a hub",
    examples=(
        "palaestra checkpoints upload first me/cartpole --dry-run",
        "palaestra checkpoints upload first:latest me/cartpole --dry-run --json",
        "palaestra checkpoints upload first:latest me/cartpole --public --dry-run",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=lambda _words: run_selectors(),
)
