"""`palaestra convert FILE OUT`: somebody's torch file as safetensors, without running anything in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.checkpoints.convert import convert_foreign
from palaestra.cli.command import Command
from palaestra.cli.output import print_json, print_table

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    parser.add_argument("file", help="a state_dict saved by torch, or safetensors")
    parser.add_argument("out", nargs="?", help="a new .safetensors; default: the same name with that ending")
    parser.add_flag("--json", action="store_true", help="one JSON object on stdout, nothing else there")


def run(arguments: Namespace) -> int:
    source = Path(arguments.file)
    found = convert_foreign(source, arguments.out or source.with_suffix(".safetensors"))
    if arguments.json:
        print_json(found)
        return 0
    rows = [(name, tensor.dtype, "x".join(map(str, tensor.shape))) for name, tensor in found.tensors.items()]
    print_table(("tensor", "type", "shape"), rows)
    print(found.path)
    return 0


COMMAND = Command(
    name="convert",
    summary="somebody's torch file as safetensors; nothing in the file is ever run",
    examples=(
        "palaestra convert plain.pt",
        "palaestra convert plain.pt copy.safetensors",
        "palaestra convert plain.pt third.safetensors --json",
    ),
    add_arguments=add_arguments,
    run=run,
)
CONVERT = replace(COMMAND, name="checkpoints convert")
