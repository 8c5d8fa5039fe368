"""`palaestra checkpoints [list|show|verify|export|convert]`."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.convert import convert_file
from palaestra.checkpoints.durable import committed_epochs, verify
from palaestra.checkpoints.replay_segments import segments_of
from palaestra.checkpoints.replay_segments import verify as verify_segments
from palaestra.checkpoints.selection import Survey, survey
from palaestra.checkpoints.targets import find_target
from palaestra.cli.candidates import run_names, run_selectors
from palaestra.cli.command import Command, Group
from palaestra.cli.output import clean, note, print_json, print_table, print_text
from palaestra.config.yaml import dump_yaml
from palaestra.core.errors import DamagedFile, UsageError

if TYPE_CHECKING:
    from argparse import Namespace

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
        checkpoint, _ = verify(directory, epoch)
        verify_segments(directory, segments_of(checkpoint))
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
    parser.add_argument("run", help="id, prefix of an id, name, latest, or a run directory")
    parser.add_flag("--json", action="store_true", help="print JSON on stdout")


def _target_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="RUN, RUN:best, RUN:EPOCH, or a path")
    parser.add_flag("--json", action="store_true", help="print one JSON object on stdout")


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


WEIGHTS = (".safetensors", ".pt")
GRAPH = ".onnx"


def add_export_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="RUN, RUN:best, RUN:EPOCH, or a path")
    parser.add_argument("out", help="a new file: .safetensors or .pt for the weights, .onnx for the whole policy")
    parser.add_flag("--force", action="store_true", help="replace the file if it exists")
    parser.add_flag("--json", action="store_true", help="print one JSON object on stdout")


def run_export(arguments: Namespace) -> int:
    out = Path(arguments.out)
    if out.suffix not in (*WEIGHTS, GRAPH):
        raise UsageError(f"Unknown format of '{out}'.", f"Use one of {', '.join(WEIGHTS)} or {GRAPH}.")
    if out.exists() and not arguments.force:
        raise UsageError(f"{out} already exists.", "Choose another name, or add --force.")
    from palaestra.checkpoints.export import export_onnx, export_state_dict

    write = export_onnx if out.suffix == GRAPH else export_state_dict
    written = write(arguments.target, out)
    if arguments.json:
        print_json({"file": written, "bytes": written.stat().st_size})
    else:
        print(written)
    return 0


EXPORT = Command(
    name="checkpoints export",
    summary="the policy of a checkpoint as bare weights or as an ONNX graph",
    examples=(
        "palaestra checkpoints export first weights.safetensors",
        "palaestra checkpoints export first:latest weights.pt --json",
        "palaestra checkpoints export first:latest policy.onnx",
    ),
    add_arguments=add_export_arguments,
    run=run_export,
    candidates=lambda _words: run_selectors(),
)


def add_upload_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="RUN, RUN:best, RUN:EPOCH, or a path")
    parser.add_argument("repo_id", metavar="OWNER/NAME", help="repository on the hub; created if it does not exist")
    parser.add_flag("--public", action="store_true", help="make a new repository public; default: private")
    parser.add_flag("--dry-run", action="store_true", help="print what would be sent without sending it")
    parser.add_flag("--json", action="store_true", help="print one JSON object on stdout")


def run_upload(arguments: Namespace) -> int:
    from palaestra.checkpoints.hub import pack_upload, upload_to_hub

    if arguments.dry_run:
        with pack_upload(arguments.target, arguments.repo_id) as upload:
            if arguments.json:
                print_json({"repo_id": upload.repo_id, "files": upload.files, "card": upload.card, "sent": False})
                return 0
            for name, size in upload.files.items():
                note(f"{name}: {size} bytes")
            note(f"Nothing was sent to {clean(upload.repo_id)}. Model card:")
            print_text(upload.card)
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
    add_arguments=add_upload_arguments,
    run=run_upload,
    candidates=lambda _words: run_selectors(),
)


def add_convert_arguments(parser: Parser) -> None:
    parser.add_argument("file", help="a state_dict saved by torch, or safetensors")
    parser.add_argument("out", nargs="?", help="a new .safetensors; default: the same name with that ending")
    parser.add_flag("--json", action="store_true", help="print one JSON object on stdout")


def run_convert(arguments: Namespace) -> int:
    source = Path(arguments.file)
    found = convert_file(source, arguments.out or source.with_suffix(".safetensors"))
    if arguments.json:
        print_json(found)
        return 0
    rows = [(name, tensor.dtype, "x".join(map(str, tensor.shape))) for name, tensor in found.tensors.items()]
    print_table(("tensor", "type", "shape"), rows)
    print(found.path)
    return 0


CONVERT_COMMAND = Command(
    name="convert",
    summary="somebody's torch file as safetensors; nothing in the file is ever run",
    examples=(
        "palaestra convert plain.pt",
        "palaestra convert plain.pt copy.safetensors",
        "palaestra convert plain.pt third.safetensors --json",
    ),
    add_arguments=add_convert_arguments,
    run=run_convert,
)
CONVERT = replace(CONVERT_COMMAND, name="checkpoints convert")

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
