"""`python -m palaestra.evaluation.background_worker RUN_DIRECTORY PARENT_PID FD`: evaluates checkpoints of a training.

Each line of standard input is an epoch; each result is a line to FD. The process runs at low priority, loads from disk,
and records a result before it sends it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from palaestra.core.child_process import die_with_parent
from palaestra.core.errors import PalaestraError
from palaestra.evaluation.session import EvaluationOptions, EvaluationSession
from palaestra.evaluation.targets import load_policy_target
from palaestra.loggers.samples import evaluation_sample_of
from palaestra.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable

NICENESS = 10
OPTIONS = EvaluationOptions(submitted_by="training", is_standalone=False)


def main(lines: Iterable[str], directory: RunDirectory, messages: int) -> int:
    torch.set_num_threads(1)
    for line in lines:
        message = json.dumps(evaluate(directory, int(line))).encode() + b"\n"
        while message:
            message = message[os.write(messages, message) :]
    return 0


def evaluate(directory: RunDirectory, epoch: int) -> dict[str, Any]:
    """The fields of a `CheckpointEvaluation`. A checkpoint that was evaluated before is not evaluated again."""
    try:
        target = load_policy_target(f"{directory.path}:{epoch}", directory.path.parent)
        with EvaluationSession(target, OPTIONS) as session:
            report = session.find_recorded() or session.evaluate()
    except PalaestraError as error:
        return {"epoch": epoch, "error": str(error)}
    sample = evaluation_sample_of(report, target.checkpoint.agent_step, 0.0)
    return {"epoch": epoch, "step": sample.step, "metrics": sample.metrics, "timings": sample.timings}


if __name__ == "__main__":
    die_with_parent(int(sys.argv[2]))
    os.nice(NICENESS)
    sys.exit(main(sys.stdin, RunDirectory(Path(sys.argv[1])), int(sys.argv[3])))
