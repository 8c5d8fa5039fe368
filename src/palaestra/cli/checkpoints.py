"""`palaestra checkpoints [list|show|verify|export|convert]`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.durable import committed_epochs, verify
from palaestra.checkpoints.reading import Survey, survey
from palaestra.checkpoints.targets import find_target
from palaestra.cli.command import Command, Group
from palaestra.cli.convert import CONVERT
from palaestra.cli.export import EXPORT
from palaestra.cli.output import note, print_json, print_table, print_text
from palaestra.cli.targets import run_names, run_selectors
from palaestra.cli.upload import UPLOAD
from palaestra.config.yaml import dump_yaml
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from palaestra.cli.parser import Parser
    from palaestra.core.checkpoint import Checkpoint


def run_list(arguments: Namespace) -> int:
    found = survey(find_target(arguments.run).directory)
    if arguments.json:
        print_json({"checkpoints": found.checkpoints, "refused": found.refused})
        return 0
    rows = [(one.epoch, one.agent_step, one.score, one.avg_reward, _when(one), _file(one)) for one in found.checkpoints]
    columns = ("epoch", "step", "score", "avg reward", "saved", "file")
    print_table(columns, rows, empty=f"Run '{arguments.run}' has saved no checkpoint yet.")
    _warn_of_refused(found)
    return 0


def run_show(arguments: Namespace) -> int:
    opened = find_target(arguments.target).open()
    for one in opened.refused:
        note(f"not used: {one.reason}")
    data = {**asdict(opened.checkpoint), "path": str(opened.checkpoint.path)}
    if arguments.json:
        print_json(data)
    else:
        print_text(dump_yaml(data))
    return 0


def run_verify(arguments: Namespace) -> int:
    """Reads every byte of every checkpoint; exit code 1 when one is damaged."""
    directory = find_target(arguments.run).directory
    results = [_verify(directory, epoch) for epoch in committed_epochs(directory)]
    if arguments.json:
        print_json(results)
    else:
        rows = [(one["epoch"], "ok" if one["ok"] else "DAMAGED", one["reason"]) for one in results]
        print_table(("epoch", "state", "reason"), rows, empty=f"Run '{arguments.run}' has saved no checkpoint yet.")
    damaged = [str(one["epoch"]) for one in results if not one["ok"]]
    if damaged:
        raise DamagedFile(f"{len(damaged)} of {len(results)} checkpoints are damaged: {', '.join(damaged)}.")
    return 0


def _verify(directory: Path, epoch: int) -> dict[str, Any]:
    try:
        verify(directory, epoch)
    except DamagedFile as error:
        return {"epoch": epoch, "ok": False, "reason": error.message}
    return {"epoch": epoch, "ok": True, "reason": ""}


def _warn_of_refused(found: Survey) -> None:
    for one in found.refused:
        note(f"damaged: {one.path}: {one.reason}")


def _when(checkpoint: Checkpoint) -> str:
    return datetime.fromtimestamp(checkpoint.saved_at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _file(checkpoint: Checkpoint) -> str:
    return checkpoint.path.name if checkpoint.path else ""


def _run_arguments(parser: Parser) -> None:
    parser.add_argument("run", help="id, beginning of an id, name, latest, or a run's directory")
    parser.add_flag("--json", action="store_true", help="JSON on stdout, nothing else there")


def _target_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="RUN, RUN:best, RUN:EPOCH, or a path")
    parser.add_flag("--json", action="store_true", help="one JSON object on stdout, nothing else there")


LIST = Command(
    name="checkpoints list",
    summary="the checkpoints of a run, oldest first",
    examples=(
        "palaestra checkpoints list latest",
        "palaestra checkpoints list first",
        "palaestra checkpoints list first --json",
    ),
    add_arguments=_run_arguments,
    run=run_list,
    candidates=lambda _words: run_names(),
)
SHOW = Command(
    name="checkpoints show",
    summary="everything a checkpoint says of itself",
    examples=(
        "palaestra checkpoints show latest",
        "palaestra checkpoints show first:latest",
        "palaestra checkpoints show first:latest --json",
    ),
    add_arguments=_target_arguments,
    run=run_show,
    candidates=lambda _words: run_selectors(),
)
VERIFY = Command(
    name="checkpoints verify",
    summary="read every byte of a run's checkpoints and compare the checksums",
    examples=(
        "palaestra checkpoints verify latest",
        "palaestra checkpoints verify first",
        "palaestra checkpoints verify first --json",
    ),
    add_arguments=_run_arguments,
    run=run_verify,
    candidates=lambda _words: run_names(),
)
COMMAND = Group(
    name="checkpoints",
    summary="what runs have saved",
    actions={"list": LIST, "show": SHOW, "verify": VERIFY, "export": EXPORT, "convert": CONVERT, "upload": UPLOAD},
    examples=(
        "palaestra checkpoints list latest",
        "palaestra checkpoints show latest",
        "palaestra checkpoints verify latest",
    ),
)
