"""The evaluations of a training: which checkpoints were submitted, and what became of them.

The loop saves a checkpoint, submits it, and goes on. Retention keeps a submitted checkpoint until its result arrives.
A late result is logged at the step of its checkpoint. A resumed run submits the checkpoints again that were
due and have no result; evaluators look first whether one was recorded, so none is evaluated twice.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from palaestra.core.errors import PalaestraError
from palaestra.core.metrics_logger import Sample
from palaestra.loggers.samples import EVALUATED_RETURN
from palaestra.runs.metrics.reader import MetricsReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.checkpoints.manager import CheckpointManager
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.clock import Clock
    from palaestra.evaluation.evaluator import BackgroundEvaluator, CheckpointEvaluation
    from palaestra.loggers.fanout import LoggerFanout
    from palaestra.runner.session import RunSession

logger = logging.getLogger(__name__)


class EvaluationScheduler:
    """Only the leader has evaluators; on the other ranks every method does nothing."""

    def __init__(
        self,
        evaluators: Sequence[BackgroundEvaluator],
        manager: CheckpointManager,
        session: RunSession,
        loggers: LoggerFanout,
        clock: Clock,
    ) -> None:
        self._evaluators = tuple(evaluators)
        self._manager = manager
        self._session = session
        self._loggers = loggers
        self._clock = clock
        self._protected: dict[tuple[BackgroundEvaluator, int], ExitStack] = {}
        self._submitted: set[int] = set()  # epochs
        self._logged: set[int] = set()  # steps whose metrics were logged
        self._reported_errors: set[str] = set()  # a cluster that is away causes one warning, not one per checkpoint

    @property
    def outstanding(self) -> int:
        return sum(evaluator.outstanding for evaluator in self._evaluators)

    def submit(self, checkpoint: Checkpoint) -> None:
        """Submits it to every evaluator; returns at once."""
        self._submitted.add(checkpoint.epoch)
        for evaluator in self._evaluators:
            stack = ExitStack()
            try:
                stack.enter_context(self._manager.in_use(checkpoint.epoch))
            except PalaestraError as error:  # removed just now
                self._report(checkpoint.epoch, str(error))
                continue
            self._protected[evaluator, checkpoint.epoch] = stack
            evaluator.submit(checkpoint)

    def submit_missing(self, interval: int, epoch: int) -> None:
        """For a run that is resumed at `epoch`: the existing checkpoints that were due and have no metrics."""
        if not self._evaluators or not interval:
            return
        self._logged = self._steps_with_metrics()
        for checkpoint in self._manager.list_all_checkpoints():
            is_due = checkpoint.epoch % interval == 0 and 0 < checkpoint.epoch <= epoch
            if is_due and checkpoint.agent_step not in self._logged:
                self.submit(checkpoint)

    def submit_last(self, epoch: int) -> None:
        """Submits the last checkpoint of a run whatever the interval, unless it was submitted before."""
        if not self._evaluators or epoch in self._submitted:
            return
        for checkpoint in self._manager.list_all_checkpoints():
            if checkpoint.epoch == epoch and checkpoint.agent_step not in self._logged:
                self.submit(checkpoint)

    def collect(self) -> None:
        """Logs the results that have arrived."""
        for evaluator in self._evaluators:
            for result in evaluator.collect():
                self._protected.pop((evaluator, result.epoch)).close()
                self._log(result)

    def wait(self, seconds: float) -> None:
        """For the end of a training; also on ranks without evaluators."""
        busy = [evaluator for evaluator in self._evaluators if evaluator.outstanding]
        for evaluator in busy:
            evaluator.wait(seconds / len(busy))
        if not busy:
            time.sleep(seconds)

    def close(self) -> None:
        for evaluator in self._evaluators:
            evaluator.close()
        for stack in self._protected.values():
            stack.close()
        self._protected.clear()

    def _log(self, result: CheckpointEvaluation) -> None:
        if result.error:
            self._report(result.epoch, result.error)
            return
        if result.step in self._logged:  # by another evaluator: the same seeds, so the same metrics
            return
        self._logged.add(result.step)
        self._loggers.write(Sample(result.step, result.metrics, result.timings, at=self._clock.now()))
        self._loggers.flush()
        if EVALUATED_RETURN in result.metrics and result.step == max(self._logged):
            self._session.record_score(result.metrics[EVALUATED_RETURN])

    def _report(self, epoch: int, error: str) -> None:
        level = logging.INFO if error in self._reported_errors else logging.WARNING
        logger.log(level, "Checkpoint %d was not evaluated: %s Training goes on.", epoch, error)
        self._reported_errors.add(error)
        checkpoint = f"{self._session.record.id}:{epoch}"
        self._session.journal.record("eval.failed", checkpoint=checkpoint, epoch=epoch, error=error)

    def _steps_with_metrics(self) -> set[int]:
        path = self._session.directory.metrics_file
        if not path.exists():
            return set()
        with closing(MetricsReader(path)) as reader:
            if EVALUATED_RETURN not in reader.names():
                return set()
            return {point.step for point in reader.series(EVALUATED_RETURN)}
