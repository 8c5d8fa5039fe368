"""`python -m palaestra.evaluation.pool_worker FD`: plays the plans that it receives on standard input.

The first line names the checkpoint, every further line is a plan. Each episode, and an error, is written as a line to
FD.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from palaestra.checkpoints.loading import load_opened_policy
from palaestra.checkpoints.selection import open_checkpoint
from palaestra.core.child_process import die_with_parent
from palaestra.core.errors import PalaestraError
from palaestra.evaluation.live import open_tile
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.plans import plan_from

if TYPE_CHECKING:
    from collections.abc import Iterable


def main(lines: Iterable[str], messages: int) -> int:
    evaluator: LocalEvaluator | None = None
    torch.set_num_threads(1)
    try:
        with ExitStack() as stack:
            for line in lines:
                message = json.loads(line)
                if evaluator is None:
                    evaluator = _load(message, stack)
                    continue
                for episode in evaluator.evaluate(plan_from(message["plan"])):
                    _send(messages, {"episode": asdict(episode)})
    except PalaestraError as error:
        _send(messages, {"error": error.message, "hint": error.hint, "exit_code": error.exit_code})
        return error.exit_code
    return 0


def _load(start: dict[str, Any], stack: ExitStack) -> LocalEvaluator:
    die_with_parent(start["parent"])
    sidecar = Path(start["sidecar"])
    opened = open_checkpoint(sidecar.parent, sidecar)
    folders = {name: Path(start[name]) for name in ("videos", "replays") if start[name] is not None}
    evaluator = LocalEvaluator(load_opened_policy(opened, trust_module=start["trust_module"]), **folders)
    if start.get("frame_buffer") is not None:
        evaluator.viewer = stack.enter_context(open_tile(Path(start["frame_buffer"]), start["slot"]))
    return evaluator


def _send(messages: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(messages, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.stdin, int(sys.argv[1])))
