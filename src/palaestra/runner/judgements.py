"""What a training knows of the judgements of its checkpoints: which were asked for, and what became of them.

The loop saves, asks and goes on. A checkpoint is held against retention until it was judged; a result that comes late
goes to the loggers at the step it belongs to. An epoch that was due when a run was interrupted is asked for again when
the run goes on; whoever judges looks first whether it was judged already, so none is judged twice.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Protocol

from palaestra.core.errors import PalaestraError
from palaestra.core.metrics_logger import Sample
from palaestra.loggers.samples import EVALUATED_RETURN
from palaestra.runs.metrics_reader import MetricsReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.checkpoints.manager import CheckpointManager
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.clock import Clock
    from palaestra.loggers.fanout import LoggerFanout
    from palaestra.runner.session import RunSession
    from palaestra.runner.spare import Verdict

logger = logging.getLogger(__name__)


class Evaluator(Protocol):
    """Somebody who judges while others train. No call waits but `wait`."""

    @property
    def outstanding(self) -> int: ...

    def ask(self, checkpoint: Checkpoint) -> None: ...

    def collect(self) -> list[Verdict]: ...

    def wait(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class Judgements:
    """The leader's has evaluators where any were asked for; those of the other ranks have none and know nothing."""

    def __init__(
        self,
        evaluators: Sequence[Evaluator],
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
        self._held: dict[tuple[Evaluator, int], ExitStack] = {}
        self._asked: set[int] = set()  # epochs
        self._told: set[int] = set()  # steps whose figures the loggers have
        self._complaints: set[str] = set()  # a cluster that is away is said once, not at every checkpoint

    @property
    def outstanding(self) -> int:
        return sum(evaluator.outstanding for evaluator in self._evaluators)

    def ask(self, checkpoint: Checkpoint) -> None:
        """Have it judged by every evaluator; returns at once."""
        self._asked.add(checkpoint.epoch)
        for evaluator in self._evaluators:
            stack = ExitStack()
            try:
                stack.enter_context(self._manager.in_use(checkpoint.epoch))
            except PalaestraError as error:  # somebody removed it this very moment
                self._complain(checkpoint.epoch, str(error))
                continue
            self._held[evaluator, checkpoint.epoch] = stack
            evaluator.ask(checkpoint)

    def catch_up(self, interval: int, epoch: int) -> None:
        """Of a run that goes on from `epoch`: what was due and has no figures yet, as far as it is still there."""
        if not self._evaluators or not interval:
            return
        self._told = self._steps_with_figures()
        for checkpoint in self._manager.list_all_checkpoints():
            is_due = checkpoint.epoch % interval == 0 and 0 < checkpoint.epoch <= epoch
            if is_due and checkpoint.agent_step not in self._told:
                self.ask(checkpoint)

    def ask_last(self, epoch: int) -> None:
        """Have the last checkpoint of a run evaluated, whatever the interval says, unless it was asked for already."""
        if not self._evaluators or epoch in self._asked:
            return
        for checkpoint in self._manager.list_all_checkpoints():
            if checkpoint.epoch == epoch and checkpoint.agent_step not in self._told:
                self.ask(checkpoint)

    def collect(self) -> None:
        """Whatever was said meanwhile goes where it belongs."""
        for evaluator in self._evaluators:
            for verdict in evaluator.collect():
                self._held.pop((evaluator, verdict.epoch)).close()
                self._take(verdict)

    def wait(self, seconds: float) -> None:
        """At the end, when there is nothing else to do; those without evaluators wait for those with some."""
        busy = [evaluator for evaluator in self._evaluators if evaluator.outstanding]
        for evaluator in busy:
            evaluator.wait(seconds / len(busy))
        if not busy:
            time.sleep(seconds)

    def close(self) -> None:
        for evaluator in self._evaluators:
            evaluator.close()
        for stack in self._held.values():
            stack.close()
        self._held.clear()

    def _take(self, verdict: Verdict) -> None:
        if verdict.error:
            self._complain(verdict.epoch, verdict.error)
            return
        if verdict.step in self._told:  # by another evaluator: the same seeds, so the same figures
            return
        self._told.add(verdict.step)
        self._loggers.write(Sample(verdict.step, verdict.metrics, verdict.timings, at=self._clock.now()))
        self._loggers.flush()
        if EVALUATED_RETURN in verdict.metrics and verdict.step == max(self._told):
            self._session.judged(verdict.metrics[EVALUATED_RETURN])

    def _complain(self, epoch: int, error: str) -> None:
        level = logging.INFO if error in self._complaints else logging.WARNING
        logger.log(level, "Checkpoint %d was not judged: %s Training goes on.", epoch, error)
        self._complaints.add(error)
        checkpoint = f"{self._session.record.id}:{epoch}"
        self._session.journal.record("eval.failed", checkpoint=checkpoint, epoch=epoch, error=error)

    def _steps_with_figures(self) -> set[int]:
        path = self._session.directory.metrics_file
        if not path.exists():
            return set()
        with closing(MetricsReader(path)) as reader:
            if EVALUATED_RETURN not in reader.names():
                return set()
            return {point.step for point in reader.series(EVALUATED_RETURN)}
