"""What an evaluation leaves behind: rows, a line in the summary, the journal, and a score in the sidecar."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.contracts.clock import SystemClock
from palaestra.contracts.errors import RunFailed
from palaestra.evaluation.summary import append_batch, describe, only_writer
from palaestra.runs.files import write_json
from palaestra.runs.journal import Journal
from palaestra.runs.schema import stamped

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.contracts.checkpoint import Checkpoint
    from palaestra.contracts.evaluation import EvaluationReport
    from palaestra.runs.directory import RunDirectory

SCHEMA_VERSION = 1
SCORE_EPISODES = "score_episodes"  # in the sidecar's metrics: how many episodes the score stands on


def write_down(
    report: EvaluationReport, checkpoint: Checkpoint, directory: RunDirectory, overrides: dict[str, Any] | None = None
) -> None:
    """Rows, summary, journal, and the score in the sidecar of the checkpoint that was judged: in this order."""
    try:
        _write_down(report, checkpoint, directory, overrides or {})
    except OSError as error:
        raise RunFailed(
            f"The evaluation (mean {report.mean:g} over {len(report.episodes)} episodes) could not be written to "
            f"{directory.path}: {error.strerror}."
        ) from error


def _write_down(
    report: EvaluationReport, checkpoint: Checkpoint, directory: RunDirectory, overrides: dict[str, Any]
) -> None:
    figures = describe(report)
    file = _write_rows(report, checkpoint, directory, overrides)
    traced: dict[str, Any] = {"checkpoint": report.plan.checkpoint, "epoch": checkpoint.epoch}
    settings = {
        "seed": report.plan.seeds[0],
        "deterministic": report.plan.deterministic,
        "complete": report.complete,
        "overrides": overrides,
    }
    place = str(file.relative_to(directory.path))
    number = append_batch(directory, {**traced, **figures, **settings, "file": place, "at": SystemClock().now()})
    journal = Journal(directory)
    journal.record("eval.batch", batch=number, **traced, **figures)
    if not overrides and _outweighs(report, checkpoint):
        weight = {SCORE_EPISODES: float(len(report.episodes))}
        CheckpointManager(directory).update_metadata(checkpoint.epoch, score=report.mean, metrics=weight)
        journal.record("checkpoint.scored", epoch=checkpoint.epoch, score=report.mean, episodes=len(report.episodes))


def _outweighs(report: EvaluationReport, checkpoint: Checkpoint) -> bool:
    """A score stands until an evaluation of at least as many episodes replaces it: two lucky ones do not."""
    stands_on = checkpoint.metrics.get(SCORE_EPISODES, 0.0) if checkpoint.score is not None else 0.0
    return report.complete and isfinite(report.mean) and len(report.episodes) >= stands_on


def _write_rows(
    report: EvaluationReport, checkpoint: Checkpoint, directory: RunDirectory, overrides: dict[str, Any]
) -> Path:
    """`evaluations/<epoch>-<n>.json`, with one row per episode; n counts the evaluations of this epoch from 1."""
    content = {
        "run": checkpoint.run,
        "run_name": checkpoint.run_name,
        "epoch": checkpoint.epoch,
        "agent_step": checkpoint.agent_step,
        "plan": asdict(report.plan),
        "overrides": overrides,
        "complete": report.complete,
        **describe(report),
        "rows": [asdict(episode) for episode in report.episodes],
    }
    directory.evaluations.mkdir(exist_ok=True)
    with only_writer(directory):
        taken = {path.name for path in directory.evaluations.glob(f"{checkpoint.epoch}-*.json")}
        number = next(number for number in range(1, len(taken) + 2) if f"{checkpoint.epoch}-{number}.json" not in taken)
        path = directory.evaluations / f"{checkpoint.epoch}-{number}.json"
        write_json(path, stamped(content, SCHEMA_VERSION))
    return path
