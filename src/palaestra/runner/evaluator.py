"""`python -m palaestra.runner.evaluator RUN_DIRECTORY FD PARENT_PID`: judges checkpoints while their run trains.

Each line of standard input is an epoch, each answer a line to FD. Nothing here is waited for: it loads from disk, plays
on what the trainer leaves of the processor, and writes down what came of it before it says so.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from palaestra.core.errors import PalaestraError
from palaestra.evaluation.judged import load_judged
from palaestra.evaluation.local import Asked, Evaluation
from palaestra.loggers.samples import evaluation_sample_of
from palaestra.runs.directory import RunDirectory
from palaestra.runs.processes import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterable

NICENESS = 10
ASKED = Asked(asked_by="training", is_alone=False)


def main(lines: Iterable[str], directory: RunDirectory, answers: int) -> int:
    torch.set_num_threads(1)
    for line in lines:
        answer = json.dumps(judge(directory, int(line))).encode() + b"\n"
        while answer:
            answer = answer[os.write(answers, answer) :]
    return 0


def judge(directory: RunDirectory, epoch: int) -> dict[str, Any]:
    """The sample of the judgement, or why there is none. What was judged before is not judged again."""
    try:
        with Evaluation(load_judged(f"{directory.path}:{epoch}", directory.path.parent), ASKED) as evaluation:
            report = evaluation.recall() or evaluation.judge()
    except PalaestraError as error:
        return {"epoch": epoch, "error": str(error)}
    sample = evaluation_sample_of(report, evaluation.judged.checkpoint.agent_step, 0.0)
    return {"epoch": epoch, "step": sample.step, "metrics": sample.metrics, "timings": sample.timings}


if __name__ == "__main__":
    die_with_parent(int(sys.argv[3]))
    os.nice(NICENESS)
    sys.exit(main(sys.stdin, RunDirectory(Path(sys.argv[1])), int(sys.argv[2])))
