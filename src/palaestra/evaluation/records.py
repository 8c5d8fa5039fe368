"""What a judgement leaves behind: rows, a line in the summary, the journal, curves, and a score in the sidecar.

Rows come first and the line in the summary commits them: whoever is killed in between leaves rows that nobody refers
to, and the next judgement writes over them.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Self

from palaestra.checkpoints.durable import read_sidecar
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.selection import SCORE_EPISODES, mean_over
from palaestra.core.clock import SystemClock
from palaestra.core.errors import DamagedFile, NotFound, PalaestraError, RunFailed
from palaestra.core.evaluation import EvaluationReport, SuiteReport
from palaestra.evaluation.curves import Curves
from palaestra.evaluation.request import episode_from, key_of, plan_from, weights_of
from palaestra.evaluation.summary import add_batch, describe, only_writer, read_batches
from palaestra.loggers.samples import evaluation_sample_of
from palaestra.runs.files import read_json, sweep_temporaries, write_json
from palaestra.runs.journal import Journal
from palaestra.runs.metrics_writer import MetricsWriter
from palaestra.runs.schema import stamped, unstamped

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
class Manner:
    """How a judgement came about, as far as it matters to what becomes of it."""

    overrides: dict[str, Any] = field(default_factory=dict)
    counts: bool = True  # in the simulations of the run itself; any other leaves no score
    asked_by: str = "eval"
    keeps_metrics: bool = True  # False: somebody else writes them to the run's loggers
    evaluation: str = ""  # id of the evaluation run, where there is one


class Records:
    """Where the judgements of one checkpoint are written down."""

    def __init__(
        self,
        directory: RunDirectory,
        checkpoint: Checkpoint,
        manner: Manner | None = None,
        curves: Curves | None = None,
    ) -> None:
        """`curves` are closed by who brings them: several checkpoints of a run may share one file of events."""
        self._directory = directory
        self._checkpoint = checkpoint
        self._manner = manner or Manner()
        self._clock = SystemClock()
        self._journal = Journal(directory)
        self._curves = curves or Curves(directory, self._clock)
        self._owns_curves = curves is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_curves:
            self._curves.close()

    def add(self, report: SuiteReport, standing: SuiteReport | None = None) -> int:
        """One batch, and its number; `standing`, when there were several, is all of them so far: the score is theirs.

        A checkpoint that is gone by now takes the batch with it: nothing is written then.
        """
        try:
            with only_writer(self._directory):
                number = self._commit(report)
                self._curves.draw(self._sample(report))
        except OSError as error:
            raise RunFailed(
                f"The evaluation (mean {report.mean:g} over {len(report.episodes)} episodes) could not be written to "
                f"{self._directory.path}: {error.strerror}."
            ) from error
        figures = {name: value for name, value in describe(report).items() if name != "avg"}
        self._journal.record(
            "eval.batch", batch=number, **self._traced(), suite=report.suite, **figures, complete=report.complete
        )
        self.settle(standing or report, is_batch=standing is None or standing is report)
        return number

    def settle(self, report: SuiteReport, *, is_batch: bool = True) -> None:
        """The score, where this judgement is one and outweighs the one that stands.

        The mean of a whole batch is kept in any case: checkpoints are compared over the same number of episodes.
        """
        epoch = self._checkpoint.epoch
        if not self._manner.counts or not report.complete or not isfinite(report.mean):
            return
        episodes = len(report.episodes)
        metrics = {mean_over(episodes): report.mean} if is_batch else {}
        stands_on = _weight(read_sidecar(self._directory.checkpoints, epoch))
        if episodes < stands_on:  # two lucky episodes do not replace fifty
            if metrics:
                CheckpointManager(self._directory).update_metadata(epoch, metrics=metrics)
            return
        metrics |= {f"score_{one.plan.simulation}": one.mean for one in report.reports if len(report.reports) > 1}
        metrics[SCORE_EPISODES] = float(episodes)
        CheckpointManager(self._directory).update_metadata(epoch, score=report.mean, metrics=metrics)
        self._journal.record("checkpoint.scored", epoch=epoch, score=report.mean, episodes=episodes)
        if self._manner.keeps_metrics:
            self._keep_metrics(self._sample(report))

    def _commit(self, report: SuiteReport) -> int:
        self._demand_checkpoint()
        for place in (self._directory.path, self._directory.evaluations):
            sweep_temporaries(place)
        batches = read_batches(self._directory)
        committed = {one["file"] for batch in batches for one in batch.get("simulations", [batch]) if "file" in one}
        simulations = []
        for one in report.reports:
            path = self._write_rows(one, committed)
            committed.add(self._place(path))
            names = {"simulation": one.plan.simulation, "category": one.plan.category}
            simulations.append({**names, **describe(one), "complete": one.complete, "file": self._place(path)})
        plans = [one.plan for one in report.reports]
        entry = {
            **self._traced(),
            **describe(report),
            "suite": report.suite,
            "seed": plans[0].seeds[0],
            "deterministic": plans[0].deterministic,
            "complete": report.complete,
            "overrides": self._manner.overrides,
            "asked_by": self._manner.asked_by,
            "evaluation": self._manner.evaluation,
            "key": key_of(weights_of(self._checkpoint), plans) if _is_reusable(report) else "",
            "file": simulations[0]["file"],
            "simulations": simulations,
            "at": self._clock.now(),
        }
        if report.code_differences:
            entry["code_differences"] = {host: list(names) for host, names in report.code_differences.items()}
        return add_batch(self._directory, batches, entry)

    def _demand_checkpoint(self) -> None:
        now = read_sidecar(self._directory.checkpoints, self._checkpoint.epoch)
        if weights_of(now) != weights_of(self._checkpoint):
            raise NotFound(
                f"Checkpoint {self._checkpoint.epoch} of {self._directory.path} has other weights by now.",
                "Judge it again.",
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
            "overrides": self._manner.overrides,
            "complete": report.complete,
            **describe(report),
            "rows": [asdict(episode) for episode in report.episodes],
        }
        write_json(path, stamped(content, SCHEMA_VERSION))
        return path

    def _is_taken(self, path: Path, committed: set[str]) -> bool:
        return self._place(path) in committed and path.exists()

    def _place(self, path: Path) -> str:
        return str(path.relative_to(self._directory.path))

    def _traced(self) -> dict[str, Any]:
        return {"checkpoint": f"{self._checkpoint.run}:{self._checkpoint.epoch}", "epoch": self._checkpoint.epoch}

    def _sample(self, report: SuiteReport) -> Sample:
        return evaluation_sample_of(report, self._checkpoint.agent_step, self._clock.now())

    def _keep_metrics(self, sample: Sample) -> None:
        """A run that trains just now has its metrics to itself; the figures are on disk all the same."""
        try:
            with MetricsWriter(self._directory.metrics_file, is_guest=True) as writer:
                writer.write(sample)
        except PalaestraError as error:
            logger.info("The judgement is written down, but not among the run's metrics: %s", error)


def find_judgement(
    directory: RunDirectory, checkpoint: Checkpoint, plans: Sequence[EvaluationPlan]
) -> SuiteReport | None:
    """What came of exactly these plans with exactly these weights, if they were ever played to their end."""
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
        raise DamagedFile(f"{path} holds no episodes ({error}).", "Move it away and judge again.") from error


def _is_reusable(report: SuiteReport) -> bool:
    """May the same request be answered with it later? Other code may have played it differently."""
    return report.complete and not report.code_differences


def _weight(checkpoint: Checkpoint) -> float:
    return checkpoint.metrics.get(SCORE_EPISODES, 0.0) if checkpoint.score is not None else 0.0
