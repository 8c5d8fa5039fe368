"""One training with Palaestra as a user has it, evaluated: `python -m learn.ours JOB RESULT`."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch

import palaestra
from learn.result import Job, Result, write_result
from learn.tasks import EVALUATION_SEEDS, TASKS, TRAINING_WINDOW
from palaestra.core.errors import RunFailed
from palaestra.runs.metrics.reader import MetricsReader


def main(job_file: Path, result_file: Path) -> None:
    job = Job(**json.loads(job_file.read_text()))
    with TemporaryDirectory(prefix="palaestra-learning-") as folder:
        write_result(result_file, train_and_evaluate(job, Path(folder)))


def train_and_evaluate(job: Job, runs_root: Path) -> Result:
    started = perf_counter()
    outcome = palaestra.train(
        TASKS[job.task].recipe,
        algorithm=TASKS[job.task].algorithm,
        run="trained",
        runs_root=runs_root,
        seed=job.seed,
        total_steps=job.total_steps,
        **job.overrides,
        **{"loggers.tensorboard": False, "checkpoints.save_interval": 0},
    )
    seconds = perf_counter() - started
    if outcome.record.agent_step < job.total_steps:
        raise RunFailed(f"Training was stopped at step {outcome.record.agent_step} of {job.total_steps}.")
    report = palaestra.evaluate(
        "trained:latest", episodes=len(EVALUATION_SEEDS), seed=EVALUATION_SEEDS[0], runs_root=runs_root
    )
    with MetricsReader(outcome.directory.metrics_file) as metrics:
        last = metrics.episodes(limit=TRAINING_WINDOW)
    return Result(
        job=job,
        steps=outcome.record.agent_step,
        returns=tuple(report.returns),
        training_return=sum(episode.total_reward for episode in last) / len(last),
        seconds=seconds,
        versions={"palaestra": version("palaestra"), "torch": torch.__version__},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
