"""`palaestra checkpoints export RUN[:SELECTOR] OUT`: a policy for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import print_json
from palaestra.cli.targets import run_selectors
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser

WEIGHTS = (".safetensors", ".pt")
GRAPH = ".onnx"


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="RUN, RUN:best, RUN:EPOCH, or a path")
    parser.add_argument("out", help="a new file: .safetensors or .pt for the weights, .onnx for the whole policy")
    parser.add_flag("--force", action="store_true", help="replace the file when it is there")
    parser.add_flag("--json", action="store_true", help="one JSON object on stdout, nothing else there")


def run(arguments: Namespace) -> int:
    out = Path(arguments.out)
    if out.suffix not in (*WEIGHTS, GRAPH):
        raise UsageError(f"'{out}' does not say what to write.", f"End it in {', '.join(WEIGHTS)} or {GRAPH}.")
    if out.exists() and not arguments.force:
        raise UsageError(f"{out} is there already.", "Choose another name, or add --force.")
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
    add_arguments=add_arguments,
    run=run,
    candidates=lambda _words: run_selectors(),
)
