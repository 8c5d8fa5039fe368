"""Records of an evaluation: rows, a line in the summary, the journal, TensorBoard, and a score in the sidecar.

Rows are written first and the line in the summary commits them. A process that is killed in between leaves rows that no
line refers to; the next evaluation overwrites them.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Self

from palaestra.checkpoints.durable import read_sidecar
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.selection import SCORE_EPISODES, mean_over
from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import DamagedFile, NotFound, PalaestraError, RunFailed
from palaestra.core.evaluation import EvaluationReport, SuiteReport
from palaestra.evaluation.plans import episode_from, key_of, plan_from, weights_of
from palaestra.evaluation.summary import add_batch, describe, only_writer, read_batches
from palaestra.loggers.samples import evaluation_sample_of
from palaestra.loggers.tensorboard import TensorBoardLogger
from palaestra.runs.files import read_json, stamped, sweep_temporaries, unstamped, write_json
from palaestra.runs.journal import Journal
from palaestra.runs.metrics.writer import MetricsWriter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.core.metrics_logger import Sample
    from palaestra.runs.directory import RunDirectory

logger = logging.getLogger(__name__)

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class RecordOptions:
    """How an evaluation was made, as far as that decides what is recorded."""

    overrides: dict[str, Any] = field(default_factory=dict)
    is_own_suite: bool = True  # False: the simulations are not those of the run, so the score stays unchanged
    submitted_by: str = "eval"
    writes_metrics: bool = True  # False: the training writes them to the loggers of the run
    evaluation: str = ""  # id of the evaluation run, where there is one


class EvaluationRecorder:
    """Records the evaluations of one checkpoint in its run's directory."""

    def __init__(
        self,
        directory: RunDirectory,
        checkpoint: Checkpoint,
        options: RecordOptions | None = None,
        events: EvaluationEvents | None = None,
    ) -> None:
        """`events` are closed by the caller that passes them: several checkpoints of a run may share one event file."""
        self._directory = directory
        self._checkpoint = checkpoint
        self._options = options or RecordOptions()
        self._clock = SystemClock()
        self._journal = Journal(directory)
        self._events = events or EvaluationEvents(directory, self._clock)
        self._owns_events = events is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_events:
            self._events.close()

    def add(self, report: SuiteReport, total: SuiteReport | None = None) -> int:
        """Records one batch and returns its number; `total` is the report of all batches so far and gives the score.

        Nothing is written when the checkpoint is gone.
        """
        try:
            with only_writer(self._directory):
                number = self._commit(report)
                self._events.write(self._sample(report))
        except OSError as error:
            raise RunFailed(
                f"The evaluation (mean {report.mean:g} over {len(report.episodes)} episodes) could not be written to "
                f"{self._directory.path}: {error.strerror}."
            ) from error
        figures = {name: value for name, value in describe(report).items() if name != "avg"}
        self._journal.record(
            "eval.batch",
            batch=number,
            **self._journal_fields(),
            suite=report.suite,
            **figures,
            complete=report.complete,
        )
        self.update_score(total or report, is_batch=total is None or total is report)
        return number

    def update_score(self, report: SuiteReport, *, is_batch: bool = True) -> None:
        """Writes the score to the sidecar, unless the present score is of more episodes or this is no score of the run.

        The mean of a batch is stored in any case: checkpoints are compared over the same number of episodes.
        """
        epoch = self._checkpoint.epoch
        if not self._options.is_own_suite or not report.complete or not isfinite(report.mean):
            return
        episodes = len(report.episodes)
        metrics = {mean_over(episodes): report.mean} if is_batch else {}
        scored_episodes = _scored_episodes(read_sidecar(self._directory.checkpoints, epoch))
        if episodes < scored_episodes:  # two lucky episodes do not replace fifty
            if metrics:
                CheckpointManager(self._directory).update_metadata(epoch, metrics=metrics)
            return
        metrics |= {f"score_{one.plan.simulation}": one.mean for one in report.reports if len(report.reports) > 1}
        metrics[SCORE_EPISODES] = float(episodes)
        CheckpointManager(self._directory).update_metadata(epoch, score=report.mean, metrics=metrics)
        self._journal.record("checkpoint.scored", epoch=epoch, score=report.mean, episodes=episodes)
        if self._options.writes_metrics:
            self._write_metrics(self._sample(report))

    def _commit(self, report: SuiteReport) -> int:
        self._require_checkpoint()
        for folder in (self._directory.path, self._directory.evaluations):
            sweep_temporaries(folder)
        batches = read_batches(self._directory)
        committed = {one["file"] for batch in batches for one in batch.get("simulations", [batch]) if "file" in one}
        simulations = []
        for one in report.reports:
            path = self._write_rows(one, committed)
            committed.add(self._relative(path))
            names = {"simulation": one.plan.simulation, "category": one.plan.category}
            simulations.append({**names, **describe(one), "complete": one.complete, "file": self._relative(path)})
        plans = [one.plan for one in report.reports]
        entry = {
            **self._journal_fields(),
            **describe(report),
            "suite": report.suite,
            "seed": plans[0].seeds[0],
            "deterministic": plans[0].deterministic,
            "complete": report.complete,
            "overrides": self._options.overrides,
            "submitted_by": self._options.submitted_by,
            "evaluation": self._options.evaluation,
            "key": key_of(weights_of(self._checkpoint), plans) if _is_reusable(report) else "",
            "file": simulations[0]["file"],
            "simulations": simulations,
            "at": self._clock.now(),
        }
        if report.code_differences:
            entry["code_differences"] = {host: list(names) for host, names in report.code_differences.items()}
        return add_batch(self._directory, batches, entry)

    def _require_checkpoint(self) -> None:
        now = read_sidecar(self._directory.checkpoints, self._checkpoint.epoch)
        if weights_of(now) != weights_of(self._checkpoint):
            raise NotFound(
                f"Checkpoint {self._checkpoint.epoch} of {self._directory.path} has different weights by now.",
                "Evaluate it again.",
            )

    def _write_rows(self, report: EvaluationReport, committed: set[str]) -> Path:
        """`evaluations/<epoch>-<n>.json`, with one row per episode; n counts the evaluations of this epoch from 1."""
        checkpoint, number = self._checkpoint, 1
        while self._is_taken(path := self._directory.evaluations / f"{checkpoint.epoch}-{number}.json", committed):
            number += 1
        content = {
            "run": checkpoint.run,
            "run_name": checkpoint.run_name,
            "epoch": checkpoint.epoch,
            "agent_step": checkpoint.agent_step,
            "weights": weights_of(checkpoint),
            "plan": asdict(report.plan),
            "overrides": self._options.overrides,
            "complete": report.complete,
            **describe(report),
            "rows": [asdict(episode) for episode in report.episodes],
        }
        write_json(path, stamped(content, SCHEMA_VERSION))
        return path

    def _is_taken(self, path: Path, committed: set[str]) -> bool:
        return self._relative(path) in committed and path.exists()

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self._directory.path))

    def _journal_fields(self) -> dict[str, Any]:
        return {"checkpoint": f"{self._checkpoint.run}:{self._checkpoint.epoch}", "epoch": self._checkpoint.epoch}

    def _sample(self, report: SuiteReport) -> Sample:
        return evaluation_sample_of(report, self._checkpoint.agent_step, self._clock.now())

    def _write_metrics(self, sample: Sample) -> None:
        """A run that is training holds its metrics file; the figures are in the summary all the same."""
        try:
            with MetricsWriter(self._directory.metrics_file, is_secondary=True) as writer:
                writer.write(sample)
        except PalaestraError as error:
            logger.info("The evaluation is recorded, but not in the metrics of the run: %s", error)


def find_recorded_report(
    directory: RunDirectory, checkpoint: Checkpoint, plans: Sequence[EvaluationPlan]
) -> SuiteReport | None:
    """The report of exactly these plans with exactly these weights, if they were played completely before."""
    key = key_of(weights_of(checkpoint), plans)
    for batch in reversed(read_batches(directory)):
        if batch.get("key") == key:
            reports = tuple(_read_report(directory.path / one["file"], one["seconds"]) for one in batch["simulations"])
            return SuiteReport(reports, float(batch["seconds"]))
    return None


def _read_report(path: Path, seconds: float) -> EvaluationReport:
    content = unstamped(read_json(path, follow_links=False), SCHEMA_VERSION, path)
    try:
        episodes = tuple(episode_from(row) for row in content["rows"])
        return EvaluationReport(plan_from(content["plan"]), episodes, float(seconds), bool(content["complete"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"{path} holds no episodes ({error}).", "Move it away and evaluate again.") from error


def _is_reusable(report: SuiteReport) -> bool:
    """Whether a later request may use this report; different code may have played different episodes."""
    return report.complete and not report.code_differences


def _scored_episodes(checkpoint: Checkpoint) -> float:
    return checkpoint.metrics.get(SCORE_EPISODES, 0.0) if checkpoint.score is not None else 0.0


class EvaluationEvents:
    """The event file in `tensorboard_eval/` of a run, made with the first sample.

    Files are numbered, so `write` needs the lock of `summary.only_writer`.
    """

    def __init__(self, directory: RunDirectory, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or SystemClock()
        self._tensorboard: TensorBoardLogger | None = None

    def write(self, sample: Sample) -> None:
        if self._tensorboard is None:
            self._tensorboard = TensorBoardLogger(self._directory.tensorboard_eval, {}, self._clock)
        self._tensorboard.write(sample)
        self._tensorboard.flush()

    def close(self) -> None:
        if self._tensorboard is not None:
            self._tensorboard.close()
            self._tensorboard = None
